import type { Series } from '@/components/Curve';
import type { Schemas } from '@/services/client';

/** A chart for each metric, a line for each worker of each job. */
export function chartsOf(
  names: string[],
  loaded: (Schemas['Metric'][] | undefined)[],
  axis: 'step' | 'time',
) {
  const charts = new Map<string, Series[]>();
  names.forEach((name, index) => {
    for (const metric of loaded[index] ?? []) {
      const workers = [...new Set((metric.points ?? []).map((point) => point.worker))].sort((a, b) => a - b);
      for (const worker of workers) {
        const points = (metric.points ?? [])
          .filter((point) => point.worker === worker)
          .map((point, order) => ({
            x: axis === 'time' ? Date.parse(point.time) : (point.step ?? order),
            // What JSON has no number for comes by its name.
            y: Number(point.value),
          }));
        const label = names.length > 1 ? `${name} #${worker}` : `#${worker}`;
        charts.set(metric.name, [...(charts.get(metric.name) ?? []), { label, points }]);
      }
    }
  });
  return [...charts].map(([name, series]) => ({ name, series }));
}
