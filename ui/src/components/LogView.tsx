import { ActionIcon, Box, Button, Group, Text, Tooltip } from '@mantine/core';
import { IconArrowBarToDown, IconArrowBarToUp } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, type ReactNode, type UIEvent, useEffect, useLayoutEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';

import { marked, pieces } from '@/libs/ansi';
import { clock } from '@/libs/time';
import type { Line } from '@/libs/window';
import type { Log } from '@/services/logs';

import classes from './LogView.module.css';
import { Whereabouts } from './Whereabouts';

interface Props {
  log: Log;
  follow: boolean;
  onFollow: (on: boolean) => void;
  wrap: boolean;
  times: boolean;
  showWorker: boolean;
  /** What the search looks for, marked wherever it is in sight. */
  marker: RegExp | undefined;
  /** The line to show, in the middle. */
  target: Line | undefined;
  /** The tools above the lines. */
  children: ReactNode;
}

const LINE = 20;
/** So many lines from its edge, the next page is read. */
const NEAR = 300;

/**
 * A log of any length: only the lines in sight are in the page, and only some pages around them in memory. It follows
 * the end until the reader scrolls up, and then stays where the reader is, whatever arrives.
 */
export function LogView(props: Props) {
  const { log, follow, onFollow, wrap, times, showWorker, marker, target, children } = props;
  const { window: held, version, more, go, follow: setFollowing } = log;
  const { t } = useTranslation();
  const scroller = useRef<HTMLDivElement>(null);
  /** The line at the top of the view and how far it is scrolled, so that it stays there when lines come before it. */
  const anchor = useRef({ number: 0, offset: 0 });
  const lastTop = useRef(0);

  // eslint-disable-next-line react-hooks/incompatible-library -- read in the same render only, never handed on
  const rows = useVirtualizer({
    count: held.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE,
    getItemKey: (index) => held.numberOf(index),
    overscan: 20,
  });
  const items = rows.getVirtualItems();
  const firstSeen = items[0]?.index ?? 0;
  const lastSeen = items.at(-1)?.index ?? 0;

  useEffect(() => {
    setFollowing(follow);
  }, [setFollowing, follow]);

  // Before painting: to the end, or back to the line that was at the top.
  useLayoutEffect(() => {
    if (held.length === 0 || scroller.current === null) return;
    if (follow && held.last) {
      scroller.current.scrollTop = scroller.current.scrollHeight;
      // Wrapped lines get their height only when they are in sight.
      if (wrap) rows.scrollToIndex(held.length - 1, { align: 'end' });
      return;
    }
    const index = held.indexOf(anchor.current.number);
    const start = rows.measurementsCache[index]?.start;
    if (start === undefined) return;
    const top = start + anchor.current.offset;
    if (Math.abs(scroller.current.scrollTop - top) > 1) scroller.current.scrollTop = top;
  }, [follow, held, rows, version, wrap]);

  useEffect(() => {
    if (held.length === 0) return;
    // Whoever follows the end has no need of what lies before.
    if (!follow && firstSeen < NEAR) more('before');
    else if (lastSeen > held.length - NEAR) more('after');
  }, [firstSeen, lastSeen, follow, held, more, version]);

  useEffect(() => {
    if (target === undefined) return;
    const index = held.find(target);
    if (index < 0) return;
    anchor.current = { number: held.numberOf(index), offset: -120 };
    rows.scrollToIndex(index, { align: 'center' });
    // eslint-disable-next-line react-hooks/exhaustive-deps -- only when another line is to be shown, not when more arrives
  }, [target]);

  const remember = (top: number) => {
    const row = rows.getVirtualItemForOffset(top);
    if (row !== undefined) anchor.current = { number: held.numberOf(row.index), offset: top - row.start };
  };

  const onScroll = (event: UIEvent<HTMLDivElement>) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    const atEnd = held.last && scrollHeight - scrollTop - clientHeight < 4;
    const up = scrollTop < lastTop.current - 1;
    lastTop.current = scrollTop;
    remember(scrollTop);
    if (atEnd && !follow) onFollow(true);
    else if (!atEnd && follow && up) onFollow(false);
  };

  const toStart = () => {
    onFollow(false);
    const show = () => {
      anchor.current = { number: held.numberOf(0), offset: 0 };
      rows.scrollToIndex(0);
    };
    if (held.first) show();
    else void go({ thousandths: 0 }).then(show);
  };
  const toEnd = () => {
    onFollow(true);
    if (!held.last) void go({});
  };
  const toPart = (thousandths: number) => {
    onFollow(false);
    void go({ thousandths }).then(() => {
      const middle = Math.floor(held.length / 2);
      anchor.current = { number: held.numberOf(middle), offset: 0 };
      rows.scrollToIndex(middle);
    });
  };

  return (
    <Box className={classes.frame}>
      <Group gap="xs" p="xs" className={classes.bar} wrap="nowrap">
        {children}
        <Ways follow={follow} onStart={toStart} onFollow={() => (follow ? onFollow(false) : toEnd())} />
      </Group>
      <div
        ref={scroller}
        className={classes.scroller}
        onScroll={onScroll}
        onKeyDown={(event) => {
          if (event.key === 'Home') toStart();
          else if (event.key === 'End') toEnd();
          else return;
          event.preventDefault();
        }}
        tabIndex={0}
        role="log"
        aria-label={t('logs.title')}
        aria-live="off"
      >
        {held.length === 0 && (log.state === 'open' || log.state === 'closed') && (
          <Text size="sm" c="dimmed" p="sm">
            {log.state === 'open' ? t('logs.nothingYet') : t('logs.nothing')}
          </Text>
        )}
        <div style={{ height: rows.getTotalSize(), position: 'relative' }}>
          {items.map((row) => {
            const line = held.at(row.index);
            return line === undefined ? null : (
              <div
                key={row.key}
                ref={wrap ? rows.measureElement : undefined}
                data-index={row.index}
                data-hit={line === target || (target !== undefined && same(line, target)) || undefined}
                className={wrap ? classes.wrapped : classes.line}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                <LogLine line={line} showWorker={showWorker} showTime={times} marker={marker} />
              </div>
            );
          })}
        </div>
      </div>
      {!follow && !held.last && (
        <Button size="compact-sm" className={classes.newer} onClick={toEnd}>
          {t('logs.newer')}
        </Button>
      )}
      <Whereabouts log={log} first={firstSeen} last={lastSeen} onPick={toPart} />
    </Box>
  );
}

function Ways(props: { follow: boolean; onStart: () => void; onFollow: () => void }) {
  const { t } = useTranslation();
  const { follow, onStart, onFollow } = props;
  return (
    <Group gap={4} ml="auto" wrap="nowrap">
      <Tooltip label={t('logs.toStart')}>
        <ActionIcon variant="default" aria-label={t('logs.toStart')} onClick={onStart}>
          <IconArrowBarToUp size={16} />
        </ActionIcon>
      </Tooltip>
      <Tooltip label={t('logs.follow')}>
        <ActionIcon
          variant={follow ? 'filled' : 'default'}
          aria-label={t('logs.follow')}
          aria-pressed={follow}
          onClick={onFollow}
        >
          <IconArrowBarToDown size={16} />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}

function same(one: Line, other: Line): boolean {
  return one.worker === other.worker && one.time === other.time && one.text === other.text;
}

const LogLine = memo(function LogLine(props: {
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
