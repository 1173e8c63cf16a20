import { describe, expect, it } from 'vitest';

import type { Schemas } from '@/services/client';

import { chartsOf, namesOf } from './charts';

const metric = (name: string, ...workers: number[][]) =>
  ({
    name,
    points: workers.flatMap((values, worker) =>
      values.map((value, step) => ({ worker, step, value, time: `2026-11-16T10:00:0${step}Z` })),
    ),
  }) as Schemas['Metric'];
const options = { axis: 'step', workers: 'mean', mean: 'mean' } as const;

describe('the charts of a job', () => {
  it('begin with the loss, and end with what is set or was printed once', () => {
    const metrics = [
      metric('batch_size', [64]),
      metric('lr', [0.1, 0.1]),
      metric('accuracy', [0.1, 0.2]),
      metric('val_loss', [2, 1]),
    ];
    const names = chartsOf(['a'], [metrics], options).map((chart) => chart.name);
    expect(names).toEqual(['val_loss', 'accuracy', 'lr', 'batch_size']);
  });

  it('show the mean of the workers and the space between them', () => {
    const [chart] = chartsOf(['a'], [[metric('loss', [4, 2], [2, 1])]], options);
    expect(chart?.series).toEqual([
      {
        label: 'mean',
        points: [
          { x: 0, y: 3 },
          { x: 1, y: 1.5 },
        ],
        band: [
          { low: 2, high: 4 },
          { low: 1, high: 2 },
        ],
      },
    ]);
  });

  it('take the mean between the points that a worker shows', () => {
    const loss = metric('loss', [4, 4, 4], [2, 9, 4]);
    loss.points = loss.points?.filter(({ worker, step }) => worker === 0 || step !== 1);
    const [chart] = chartsOf(['a'], [[loss]], options);
    expect(chart?.series[0]?.points.map(({ y }) => y)).toEqual([3, 3.5, 4]);
  });

  it('draw a training that was started again as it went the last time, and by time all of it', () => {
    const loss = metric('loss', [4, 3, 2, 1]);
    const again = metric('loss', [9, 8]).points ?? [];
    loss.points = [
      ...(loss.points ?? []),
      ...again.map((point) => ({ ...point, time: '2026-11-16T10:01:00Z' })),
    ];
    const values = (axis: 'step' | 'time') =>
      chartsOf(['a'], [[loss]], { ...options, axis })[0]?.series[0]?.points.map(({ y }) => y);
    expect(values('step')).toEqual([9, 8]);
    expect(values('time')).toEqual([4, 3, 2, 1, 9, 8]);
  });

  it('go on where a checkpoint was taken up', () => {
    const loss = metric('loss', [4, 3, 2, 1]);
    loss.points?.push({ worker: 0, step: 2, value: 1.9, time: '2026-11-16T10:01:00Z' });
    const [chart] = chartsOf(['a'], [[loss]], options);
    expect(chart?.series[0]?.points).toMatchObject([
      { x: 0, y: 4 },
      { x: 1, y: 3 },
      { x: 2, y: 1.9 },
    ]);
  });

  it('tell jobs of the same name apart', () => {
    const jobs = ['a', 'b'].map((namespace) => ({ namespace, name: 'x' }));
    expect(namesOf([...jobs, { namespace: 'a', name: 'y' }])).toEqual(['a/x', 'b/x', 'y']);
  });

  it.each([
    ['first', ['a'], ['#0']],
    ['all', ['a'], ['#0', '#1']],
    ['all', ['a', 'b'], ['a #0', 'a #1', 'b #0', 'b #1']],
    ['mean', ['a', 'b'], ['a', 'b']],
  ] as const)('name their lines: %s of %s', (workers, names, want) => {
    const loaded = names.map(() => [metric('loss', [4, 2], [2, 1])]);
    const [chart] = chartsOf([...names], loaded, { ...options, workers });
    expect(chart?.series.map((one) => one.label)).toEqual(want);
  });
});
