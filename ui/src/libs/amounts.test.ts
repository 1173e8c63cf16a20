import { describe, expect, it } from 'vitest';

import { amounts, bytes, cores, quantity } from './amounts';

describe('amounts', () => {
  it.each([
    [0, '0 B'],
    [1024, '1 KiB'],
    [17179869184, '16 GiB'],
    [1610612736, '1.5 GiB'],
  ])('%d bytes are %s', (value, want) => expect(bytes(value)).toBe(want));

  it('writes cores without needless zeros', () => {
    expect([4, 0.5, 1.25].map(cores)).toEqual(['4', '0.5', '1.25']);
  });

  it.each([
    ['1600m', '1.6'],
    ['16000Mi', '15.6 GiB'],
    ['2G', '1.9 GiB'],
    ['4', '4'],
    ['a-job', 'a-job'],
  ])('the quantity %s is %s', (text, want) => expect(quantity(text)).toBe(want));

  it('leaves out what there is nothing of', () => {
    expect(amounts({ cpu: 2, memory: 1 << 30, gpu: 0 })).toBe('2 CPU · 1 GiB');
    expect(amounts({ cpu: 2, memory: 1 << 30, gpu: 1 })).toBe('2 CPU · 1 GiB · 1 GPU');
    expect(amounts({ cpu: 0, memory: 1 << 30, gpu: 0 })).toBe('1 GiB');
    expect(amounts({ cpu: 0, memory: 0, gpu: 0 })).toBe('');
  });
});
