import { describe, expect, it } from 'vitest';

import { Lines } from './lines';

const line = (id: number) => ({ id: String(id), worker: 0, text: `line ${id}` });

describe('Lines', () => {
  it('keeps the newest lines within the limit, in order', () => {
    const lines = new Lines(100);
    for (let i = 0; i < 250; i++) lines.append([line(i)]);
    expect(lines.length).toBeLessThanOrEqual(100);
    expect(lines.length + lines.forgotten).toBe(250);
    expect(lines.at(lines.length - 1)?.id).toBe('249');
    for (let i = 1; i < lines.length; i++)
      expect(Number(lines.at(i)?.id)).toBe(Number(lines.at(i - 1)?.id) + 1);
  });

  it('finds without regard to case', () => {
    const lines = new Lines();
    lines.append([line(1), { ...line(2), text: 'Loss: 2.3' }]);
    expect(lines.find('loss')).toEqual([1]);
    expect(lines.find('')).toEqual([]);
  });
});
