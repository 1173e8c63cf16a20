import type { Series } from '@/libs/plot';
import type { Schemas } from '@/services/client';

/** Of several workers: their mean with the space between them, the first alone, or a line for each. */
export const WORKERS = ['mean', 'first', 'all'] as const;
export type Workers = (typeof WORKERS)[number];

interface Options {
  axis: 'step' | 'time';
  workers: Workers;
  /** What the mean is called where only one job is shown. */
  mean: string;
}

/** A chart for each metric, the most wanted first, with the lines of each job. */
export function chartsOf(
  names: string[],
  loaded: (Schemas['Metric'][] | undefined)[],
  { axis, workers, mean }: Options,
): Chart[] {
  const charts = new Map<string, Series[]>();
  names.forEach((name, index) => {
    for (const metric of loaded[index] ?? []) {
      const lines = linesOf(metric, axis);
      const several = lines.length > 1;
      const prefix = names.length > 1 ? name : '';
      const shown =
        several && workers === 'mean'
          ? [{ label: prefix || mean, ...meanOf(lines) }]
          : (workers === 'all' ? lines : lines.slice(0, 1)).map(({ worker, points }) => ({
              label: workers === 'all' || prefix === '' ? `${prefix} #${worker}`.trim() : prefix,
              points,
            }));
      charts.set(metric.name, [...(charts.get(metric.name) ?? []), ...shown]);
    }
  });
  return [...charts]
    .map(([name, series]) => ({ name, series }))
    .toSorted((one, other) => rankOf(one) - rankOf(other));
}

/** What jobs are called side by side: by their names, unless two of them would be called the same. */
export function namesOf(jobs: { namespace: string; name: string }[]): string[] {
  return jobs.map(({ namespace, name }) =>
    jobs.some((one) => one.name === name && one.namespace !== namespace) ? `${namespace}/${name}` : name,
  );
}

interface Line {
  worker: number;
  points: { x: number; y: number; step: number }[];
}

/**
 * The points of each worker. What JSON has no number for comes by its name. A training that was started again goes
 * through steps for a second time: by steps it is drawn as it went the last time, by time with all that happened.
 */
function linesOf(metric: Schemas['Metric'], axis: 'step' | 'time'): Line[] {
  const all = new Map<number, Line['points']>();
  for (const { worker, time, step, value } of metric.points ?? []) {
    const points = all.get(worker) ?? [];
    const at = step ?? points.length;
    while (axis === 'step' && (points.at(-1)?.step ?? -Infinity) >= at) points.pop();
    points.push({ x: axis === 'time' ? Date.parse(time) : at, y: Number(value), step: at });
    all.set(worker, points);
  }
  return [...all].map(([worker, points]) => ({ worker, points })).toSorted((a, b) => a.worker - b.worker);
}

/** The mean at each step of the first worker, and how far apart the workers are there. */
function meanOf(lines: Line[]): Pick<Series, 'points' | 'band'> {
  const readings = lines.map(readingOf);
  const spread = (lines[0]?.points ?? []).map(({ x, step }) => {
    const values = readings.flatMap((read) => read(step) ?? []);
    return { x, values };
  });
  return {
    points: spread.map(({ x, values }) => ({
      x,
      y: values.reduce((sum, value) => sum + value, 0) / values.length,
    })),
    band: spread.map(({ values }) => ({ low: Math.min(...values), high: Math.max(...values) })),
  };
}

/**
 * What a line says at a step: its point there, or what lies between the two around it. Of a long curve each worker
 * shows other points.
 */
function readingOf({ points }: Line): (step: number) => number | undefined {
  const known = [...new Map(points.map((point) => [point.step, point.y]))].toSorted(([a], [b]) => a - b);
  return (step) => {
    let [low, high] = [0, known.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((known[middle]?.[0] ?? Infinity) < step) low = middle + 1;
      else high = middle;
    }
    const [before, after] = [known[low - 1], known[low]];
    if (after?.[0] === step) return after[1];
    if (before === undefined || after === undefined) return undefined;
    return before[1] + ((after[1] - before[1]) * (step - before[0])) / (after[0] - before[0]);
  };
}

interface Chart {
  name: string;
  series: Series[];
}

/** Names of what is set before the training, which is printed but does not move. */
const SETTING = /batch_?size|^(lr|learning_rate|epochs?|steps?|seed|rank|world_?size|workers?|nodes?)$/i;

export function isCurve({ series }: Chart): boolean {
  return series.some((one) => one.points.length > 1);
}

/** What people look for comes first: the loss, then what moves, then what was printed once or is a setting. */
function rankOf(chart: Chart): number {
  if (!isCurve(chart)) return 3;
  if (SETTING.test(chart.name)) return 2;
  return /loss/i.test(chart.name) ? 0 : 1;
}
