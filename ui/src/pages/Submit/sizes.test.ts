import { describe, expect, it } from 'vitest';

import type { Schemas } from '@/services/client';

import { largest, presetsOf } from './sizes';

const machine = (cpu: number, memory: number, gpu = 0) =>
  ({ capacity: { cpu, memory: memory * 2 ** 30, gpu } }) as Schemas['NodeInfo'];

describe('the sizes that a cluster offers', () => {
  it.each([
    ['one machine of two cores, two nodes', [machine(2, 7.6)], 2, { gpu: 0, cpu: 1, memory: 3.5 }],
    ['one machine of two cores, one node', [machine(2, 7.6)], 1, { gpu: 0, cpu: 2, memory: 7 }],
    [
      'more machines than nodes',
      [machine(64, 256, 8), machine(64, 256, 8)],
      2,
      { gpu: 8, cpu: 64, memory: 256 },
    ],
    [
      'four nodes on two machines',
      [machine(64, 256, 8), machine(64, 256, 8)],
      4,
      { gpu: 4, cpu: 32, memory: 128 },
    ],
  ])('large is all that fits: %s', (_, machines, nodes, want) => {
    expect(presetsOf(machines, nodes).large).toEqual(want);
  });

  it('never offers more than there is, whatever is asked', () => {
    for (const nodes of [1, 2, 3, 7]) {
      for (const size of Object.values(presetsOf([machine(2, 3.8), machine(4, 8)], nodes))) {
        expect(size.cpu).toBeLessThanOrEqual(4);
        expect(size.memory).toBeLessThanOrEqual(8);
        expect(size.cpu * Math.ceil(nodes / 2)).toBeLessThanOrEqual(4);
        expect(size.gpu).toBe(0);
      }
    }
  });

  it('has sizes before the machines are known', () => {
    expect(largest(undefined).cpu).toBeGreaterThan(0);
    expect(presetsOf(undefined, 2).small).toEqual({ gpu: 1, cpu: 4, memory: 16 });
  });
});
