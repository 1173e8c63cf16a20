import { describe, expect, it } from 'vitest';

import { type Chunk, LogWindow } from './window';

const chunk = (from: number, to: number): Chunk => ({
  start: String(from),
  end: String(to),
  startByte: from * 10,
  endByte: to * 10,
  lines: Array.from({ length: to - from }, (_, n) => ({ worker: 0, text: `line ${from + n}` })),
});

const texts = (window: LogWindow) =>
  Array.from({ length: window.length }, (_, index) => Number(window.at(index)?.text.slice(5)));

const isRun = (numbers: number[]) => numbers.every((n, i) => i === 0 || n === (numbers[i - 1] ?? 0) + 1);

describe('LogWindow', () => {
  it('stays small however much is appended, and says that there is more before', () => {
    const window = new LogWindow(5000);
    window.reset(chunk(0, 1000), { first: true, last: true });
    for (let n = 1000; n < 1_000_000; n += 500) window.append(chunk(n, n + 500), false);
    expect(window.length).toBeLessThanOrEqual(6000);
    expect(texts(window).at(-1)).toBe(999_999);
    expect(isRun(texts(window))).toBe(true);
    expect(window.first).toBe(false);
    expect(window.at(0)?.text).toBe(`line ${window.start}`);
    expect(window.totalBytes).toBe(10_000_000);
  });

  it('lets go at the end when a reader goes back, and numbers stay with their lines', () => {
    const window = new LogWindow(3000);
    window.reset(chunk(10_000, 11_000), { first: false, last: true });
    const number = window.numberOf(5);
    for (let n = 9000; n >= 5000; n -= 1000) window.prepend(chunk(n, n + 1000), n === 5000);
    expect(window.length).toBe(3000);
    expect(texts(window)[0]).toBe(5000);
    expect(window.end).toBe('8000');
    expect([window.first, window.last]).toEqual([true, false]);
    expect(window.indexOf(number)).toBe(5005);
    window.append(chunk(8000, 9000), false);
    expect(texts(window)[0]).toBe(6000);
    expect(isRun(texts(window))).toBe(true);
    expect(window.first).toBe(false);
  });

  it('lets nothing go under the eyes of a reader', () => {
    const window = new LogWindow(2000);
    window.reset(chunk(0, 1000), { first: true, last: true });
    window.append(chunk(1000, 2000), true);
    window.append(chunk(2000, 3000), true);
    expect(texts(window)[0]).toBe(0);
    expect(window.full).toBe(true);
  });
});
