import { memo } from 'react';

import { marked, pieces } from '@/libs/ansi';
import { clock } from '@/libs/time';
import type { Line } from '@/libs/window';

import classes from './LogView.module.css';

/** A line with its colours, its time, who printed it, and what is looked for in it. */
export const LogLine = memo(function LogLine(props: {
  line: Line;
  showWorker: boolean;
  showTime: boolean;
  marker: RegExp | undefined;
}) {
  const { line, showWorker, showTime, marker } = props;
  return (
    <>
      {showTime && line.time != null && <span className={classes.time}>{clock(line.time)} </span>}
      {showWorker && (
        <span
          className={classes.worker}
          style={{ color: `var(--mantine-color-${workerColor(line.worker)}-text)` }}
        >
          {line.worker}{' '}
        </span>
      )}
      {marked(pieces(line.text), marker).map((piece, index) => {
        const style = {
          color: piece.color === undefined ? undefined : `var(--mantine-color-${piece.color}-text)`,
          fontWeight: piece.bold ? 700 : undefined,
          fontStyle: piece.italic ? 'italic' : undefined,
          textDecoration: piece.underline ? 'underline' : undefined,
          opacity: piece.dim ? 0.8 : undefined,
        };
        return piece.marked ? (
          <mark key={index} className={classes.mark}>
            {piece.text}
          </mark>
        ) : (
          <span key={index} style={style}>
            {piece.text}
          </span>
        );
      })}
    </>
  );
});

const WORKER_COLORS = ['blue', 'teal', 'grape', 'orange', 'cyan', 'pink', 'lime', 'violet'];

export function workerColor(worker: number): string {
  return WORKER_COLORS[worker % WORKER_COLORS.length] ?? 'blue';
}
