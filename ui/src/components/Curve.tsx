import 'uplot/dist/uPlot.min.css';

import { useMantineTheme, useComputedColorScheme } from '@mantine/core';
import { useEffect, useMemo, useRef } from 'react';
import uPlot from 'uplot';

import { smoothed } from '@/libs/curves';

export interface Series {
  label: string;
  points: { x: number; y: number }[];
}

interface Props {
  title: string;
  series: Series[];
  /** From 0 (raw) to below 1 (very smooth). */
  smoothing: number;
  xLabel: string;
  /** True where x is milliseconds since the epoch. */
  time?: boolean;
}

const COLORS = ['blue', 'teal', 'grape', 'orange', 'cyan', 'pink', 'lime', 'violet'];

/** Lines over a common x, with zoom by dragging (double click shows all again). */
export function Curve({ title, series, smoothing, xLabel, time = false }: Props) {
  const element = useRef<HTMLDivElement>(null);
  const theme = useMantineTheme();
  const scheme = useComputedColorScheme('light');
  const data = useMemo(() => aligned(series, smoothing, time), [series, smoothing, time]);

  const plot = useRef<uPlot>(undefined);
  const zoomed = useRef(false);
  const latest = useRef(data);
  const labels = series.map((one) => one.label).join('\n');
  const sparse = series.every((one) => one.points.length < 30);

  useEffect(() => {
    const parent = element.current;
    if (parent === null) return;
    const ink = scheme === 'dark' ? theme.colors.dark[1] : theme.colors.gray[7];
    const grid = { stroke: scheme === 'dark' ? theme.colors.dark[5] : theme.colors.gray[2], width: 1 };
    const axis = { stroke: ink, grid, ticks: grid };
    const made = new uPlot(
      {
        title,
        width: parent.clientWidth,
        height: 260,
        scales: { x: { time } },
        // The pointer is at the same step in all charts.
        cursor: { sync: { key: time ? 'time' : 'step' } },
        axes: [{ ...axis, label: xLabel, labelSize: 20 }, axis],
        series: [
          { label: xLabel },
          ...labels.split('\n').map((label, index) => ({
            label,
            stroke: theme.colors[COLORS[index % COLORS.length] ?? 'blue']?.[scheme === 'dark' ? 4 : 6] ?? ink,
            width: 2,
            spanGaps: true,
            points: { show: sparse },
          })),
        ],
        hooks: {
          setSelect: [
            (one) => {
              if (one.select.width > 0) zoomed.current = true;
            },
          ],
        },
      },
      latest.current,
      parent,
    );
    zoomed.current = false;
    made.over.addEventListener('dblclick', () => (zoomed.current = false));
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: 260 }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [scheme, labels, sparse, theme, time, title, xLabel]);

  // New points keep what the reader has zoomed into.
  useEffect(() => {
    latest.current = data;
    if (plot.current?.series.length === data.length) plot.current.setData(data, !zoomed.current);
  }, [data]);

  return <div ref={element} role="img" aria-label={title} style={{ minHeight: 300 }} />;
}

/** uPlot wants one sorted x for all series, with gaps where a series has no point. */
function aligned(series: Series[], smoothing: number, time: boolean): uPlot.AlignedData {
  const scale = time ? 1000 : 1;
  const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point.x / scale)))].sort(
    (a, b) => a - b,
  );
  const columns = series.map((one) => {
    const ys = smoothed(
      one.points.map((point) => point.y),
      smoothing,
    );
    const at = new Map(one.points.map((point, index) => [point.x / scale, ys[index]]));
    return xs.map((x) => at.get(x) ?? null);
  });
  return [xs, ...columns];
}
