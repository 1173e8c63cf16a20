import { describe, expect, it } from 'vitest';

import { shortened, smoothed } from './curves';

describe('smoothed', () => {
  it('changes nothing with weight 0', () => {
    expect(smoothed([3, 1, 2], 0)).toEqual([3, 1, 2]);
  });

  it('keeps a constant constant, from the first value on', () => {
    for (const value of smoothed([5, 5, 5], 0.9)) expect(value).toBeCloseTo(5);
  });

  it('lies between the extremes', () => {
    for (const value of smoothed([0, 10, 0, 10], 0.6)) {
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(10);
    }
  });
});

it.each([
  [0, '0'],
  [0.25, '0.25'],
  [0.00001, '1e-5'],
  [1200, '1.2k'],
  [3_000_000, '3M'],
  [-1500, '-1.5k'],
  [0.30000000000000004, '0.3'],
])('%d on an axis is %s', (value, want) => {
  expect(shortened(value)).toBe(want);
});
