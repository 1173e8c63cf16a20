import { describe, expect, it } from 'vitest';

import { pathOf } from './spark';

describe('a curve as wide as a word', () => {
  it.each([
    ['falls from the top to the bottom', [4, 2, 0], 'M0 1L25 10L50 19'],
    ['lies in the middle when nothing moves', [3, 3], 'M0 10L50 10'],
    ['shows what is below nothing', [-1, 1], 'M0 19L50 1'],
  ])('%s', (_, values, want) => {
    expect(pathOf(values, 50, 20)).toBe(want);
  });
});
