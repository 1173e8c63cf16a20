import { describe, expect, it } from 'vitest';

import type { Schemas } from './client';
import { withdrawn, written } from './pushed';

type Job = Schemas['JobSummary'];

const job = (name: string, minute: number, more: Partial<Job> = {}) =>
  ({
    uid: name,
    name,
    namespace: 'default',
    state: 'Running',
    user: 'me',
    created_at: `2026-11-16T10:${String(minute).padStart(2, '0')}:00Z`,
    ...more,
  }) as Job;
const list = (...items: Job[]) => ({ items, total: items.length }) as Schemas['JobList'];
const names = (answer: Schemas['JobList'] | undefined) => answer?.items.map((one) => one.name);

describe('what the server pushed', () => {
  const known = list(job('b', 5), job('a', 3));

  it('takes the place of what was known of the job', () => {
    const answer = written(known, {}, job('a', 3, { state: 'Complete' }));
    expect(names(answer)).toEqual(['b', 'a']);
    expect(answer?.items[1]?.state).toBe('Complete');
    expect(answer?.total).toBe(2);
  });

  it('comes first when it is new, and pushes the last one to the next page', () => {
    const answer = written(known, { limit: 2 }, job('c', 6));
    expect(names(answer)).toEqual(['c', 'b']);
    expect(answer?.total).toBe(3);
  });

  it('changes nothing where it is not to be seen', () => {
    expect(written(known, { namespace: 'other' }, job('c', 6))).toBe(known);
    expect(written(known, { limit: 2 }, job('old', 1))).toBe(known);
    expect(written(known, { runtime: 'jax' }, job('c', 6, { runtime: 'torch' }))).toBe(known);
    expect(written(known, { tag: 'sweep' }, job('c', 6))).toBe(known);
  });

  it('is taken back: marked where deleted jobs are shown, and otherwise asked for', () => {
    const kept = withdrawn(known, { archived: true }, 'default/a');
    expect(kept?.items.map((one) => one.archived)).toEqual([undefined, true]);
    expect(withdrawn(known, {}, 'default/a')).toBeUndefined();
    expect(withdrawn(known, {}, 'other/a')).toBe(known);
  });

  it.each([
    ['it no longer matches', { state: 'Running' as const }, job('a', 3, { state: 'Failed' as const })],
    ['it belongs in the middle', {}, job('m', 4)],
    ['the list is sorted by name', { sort: 'name' }, job('c', 6)],
    [
      'the list is sorted by a state that changed',
      { sort: 'state' },
      job('a', 3, { state: 'Failed' as const }),
    ],
    ['it changed its group', { group: 'state' as const }, job('a', 3, { state: 'Failed' as const })],
    ['it is new and the list has groups', { group: 'user' as const }, job('c', 6)],
    ['only the server knows where it ran', { machine: 'm' }, job('c', 6)],
    ['it lost the tag', { tag: 'sweep' }, job('a', 3)],
    ['it is another page', { page: 1 }, job('c', 6)],
    ['the search may be for something else', { q: 'out of' }, job('c', 6)],
  ])('is asked for where %s', (_, filters, pushed) => {
    expect(written(known, filters, pushed)).toBeUndefined();
  });
});
