import { describe, expect, it } from 'vitest';

import { ago, between, duration } from './time';

describe('time', () => {
  it.each([
    [0, '0s'],
    [59_999, '59s'],
    [61_000, '1m 1s'],
    [3_600_000, '1h'],
    [90_000_000, '1d 1h'],
    [-5, '0s'],
  ])('%d ms is %s', (milliseconds, want) => {
    expect(duration(milliseconds)).toBe(want);
  });

  it('speaks Korean', () => {
    expect(duration(3_661_000, 'ko')).toBe('1시간 1분');
  });

  it('counts a running job up to now', () => {
    expect(between('2026-01-01T00:00:00Z', null, Date.parse('2026-01-01T00:01:05Z'))).toBe('1m 5s');
    expect(between(null, null)).toBe('–');
  });

  it('tells how long ago in the language', () => {
    const now = Date.parse('2026-01-01T00:10:00Z');
    expect(ago('2026-01-01T00:08:00Z', 'en', now)).toBe('2m ago');
    expect(ago('2026-01-01T00:08:00Z', 'ko', now)).toBe('2분 전');
  });
});
