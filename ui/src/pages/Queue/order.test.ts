import { expect, it } from 'vitest';

import type { Schemas } from '@/services/client';

import { inOrder } from './order';

const entry = (name: string, position: number, code: string) =>
  ({ name, position, cause: { code } }) as Schemas['QueueEntry'];

it('a job that can never run takes nobody’s place', () => {
  const shown = inOrder([entry('huge', 1, 'too_big'), entry('a', 2, 'shortage'), entry('b', 4, 'kept')]);
  expect(shown.map(({ name, position }) => [name, position])).toEqual([
    ['a', 1],
    ['b', 3],
    ['huge', 1],
  ]);
});
