import { expect, it } from 'vitest';

import { numberIn } from './address';

it.each([
  ['page=3', 3],
  ['page=0', undefined],
  ['page=-1', undefined],
  ['page=1e9', undefined],
  ['page=NaN', undefined],
  ['page=', undefined],
  ['', undefined],
  ['page=99999999999', undefined],
])('an address with %s means page %s', (text, want) => {
  expect(numberIn(new URLSearchParams(text), 'page')).toBe(want);
});
