import uPlot from 'uplot';

import { shortened, smoothed } from './curves';

export interface Series {
  label: string;
  points: { x: number; y: number }[];
  /** The lowest and highest of what a point is the mean of. */
  band?: { low: number; high: number }[];
}

export interface Look {
  labels: string;
  banded: string;
  sparse: boolean;
  time: boolean;
  xLabel: string;
  group: string;
  dark: boolean;
  /** Whether the values are parts of something, and are drawn from nothing up. */
  fromZero: boolean;
  language: string;
}

/** How the chart is drawn, whatever its size and its points. */
export function optionsOf(
  look: Look,
  colorOf: (index: number) => string,
): Omit<uPlot.Options, 'width' | 'height'> {
  const { labels, banded, sparse, time, xLabel, group, language } = look;
  const count = labels.split('\n').length;
  const ink = look.dark ? '#9aa1ab' : '#596069';
  const grid = { stroke: look.dark ? '#2a2f36' : '#eceef1', width: 1 };
  const axis = {
    stroke: ink,
    grid,
    ticks: { ...grid, size: 4 },
    font: '11px "Inter Variable", sans-serif',
  };
  return {
    scales: {
      x: { time },
      y: { range: (_, low, high) => roomFor(look.fromZero && low !== null ? Math.min(low, 0) : low, high) },
    },
    bands: banded.split(' ').flatMap((index, order) => {
      const at = count + 1 + order * 2;
      return index === ''
        ? []
        : [{ series: [at, at + 1] as [number, number], fill: `${colorOf(Number(index))}33` }];
    }),
    legend: { show: false },
    // The pointer is at the same step in all charts of the group.
    cursor: { sync: { key: group }, points: { size: 6 } },
    axes: [
      // Its own words for the time of day are English.
      {
        ...axis,
        size: 28,
        // A time of day is wider than a number.
        ...(time && { space: 84, values: (_, times) => times.map(clock(language, times)) }),
      },
      { ...axis, size: 48, values: (_, values) => values.map(shortened) },
    ],
    series: [
      { label: xLabel },
      ...labels.split('\n').map((label, index) => ({
        label,
        stroke: colorOf(index),
        width: 1.75,
        spanGaps: true,
        points: { show: sparse, size: 5 },
      })),
      // The edges of the bands: not drawn themselves.
      ...banded
        .split(' ')
        .filter(Boolean)
        .flatMap(() => [
          { stroke: 'transparent', points: { show: false } },
          { stroke: 'transparent', points: { show: false } },
        ]),
    ],
  };
}

/** The time of day in the reader's language, with seconds where the axis has them. */
function clock(language: string, times: number[]) {
  const fine = times.some((time) => time % 60 !== 0);
  const format = new Intl.DateTimeFormat(language, {
    hour: '2-digit',
    minute: '2-digit',
    ...(fine && { second: '2-digit' }),
    hourCycle: 'h23',
  });
  return (time: number) => format.format(time * 1000);
}

/** uPlot wants one sorted x for all series, with gaps where a series has no point. */
export function aligned(series: Series[], smoothing: number, time: boolean): uPlot.AlignedData {
  const scale = time ? 1000 : 1;
  const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point.x / scale)))].sort(
    (a, b) => a - b,
  );
  const column = (one: Series, values: number[]) => {
    const ys = smoothed(values, smoothing);
    const at = new Map(one.points.map((point, index) => [point.x / scale, ys[index]]));
    return xs.map((x) => {
      const y = at.get(x);
      return y === undefined || !Number.isFinite(y) ? null : y;
    });
  };
  const edges = series.flatMap((one) =>
    one.band === undefined
      ? []
      : [one.band.map((edge) => edge.high), one.band.map((edge) => edge.low)].map((values) =>
          column(one, values),
        ),
  );
  const lines = series.map((one) =>
    column(
      one,
      one.points.map((point) => point.y),
    ),
  );
  return [xs, ...lines, ...edges];
}

/** A little room above and below; a line that hardly moves is not made to look as if it did. */
function roomFor(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const least = Math.max(Math.abs(low), Math.abs(high)) * 0.02 || 1;
  const middle = (low + high) / 2;
  const half = Math.max(high - low, least) * 0.55;
  // What is never below nothing is not drawn below it.
  return [low >= 0 ? Math.max(0, middle - half) : middle - half, middle + half];
}
