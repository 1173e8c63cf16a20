import { describe, expect, it } from 'vitest';

import { smoothed } from './curves';

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
