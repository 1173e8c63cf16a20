import { groupOf } from '@/libs/groups';

import type { Schemas } from './client';
import type { JobFilters } from './jobs';

type Job = Schemas['JobSummary'];
type List = Schemas['JobList'];

/**
 * A list with what the server pushed written into it; `undefined` where only the server knows what it looks like now:
 * a job came into a view, or left it, in the middle.
 */
export function written(list: List, filters: JobFilters, job: Job): List | undefined {
  const at = list.items.findIndex((one) => one.uid === job.uid);
  const wanted = matches(filters, job);
  if (at >= 0) {
    // Where the order is by what has changed, its place may be another.
    const known = list.items[at];
    const moved = filters.sort === 'state' && known?.state !== job.state;
    const { group } = filters;
    const regrouped =
      group !== undefined && known !== undefined && groupOf(group, known) !== groupOf(group, job);
    if (!wanted || moved || regrouped) return undefined;
    return { ...list, items: list.items.with(at, job) };
  }
  if (wanted === false) return list;
  const { items } = list;
  const limit = filters.limit ?? items.length + 1;
  const newest =
    (filters.sort ?? 'newest') === 'newest' && (filters.page ?? 0) === 0 && filters.group === undefined;
  if (wanted === undefined || !newest) return undefined;
  const [first, last] = [items[0], items.at(-1)];
  if (first === undefined || job.created_at > first.created_at)
    return { ...list, items: [job, ...items].slice(0, limit), total: list.total + 1 };
  // On a later page.
  if (items.length >= limit && last !== undefined && job.created_at < last.created_at) return list;
  return undefined;
}

/** What a job is called in the stream. */
export const keyOf = ({ namespace, name }: { namespace: string; name: string }) => `${namespace}/${name}`;

/** A list after a job was deleted; `undefined` where the server must say who comes in its place. */
export function withdrawn(list: List, filters: JobFilters, key: string): List | undefined {
  if (!list.items.some((one) => keyOf(one) === key)) return list;
  if (filters.archived !== true) return undefined;
  // Its record may be a moment later than the news.
  return { ...list, items: list.items.map((one) => (keyOf(one) === key ? { ...one, archived: true } : one)) };
}

/** Whether the filters let it through; `undefined` where only the server can tell. */
function matches(filters: JobFilters, job: Job): boolean | undefined {
  const { namespace, state, framework, user, runtime, tag, machine, q } = filters;
  if (namespace !== undefined && namespace !== job.namespace) return false;
  if (state !== undefined && state !== job.state) return false;
  if (framework !== undefined && framework !== job.framework) return false;
  if (user !== undefined && user !== job.user) return false;
  if (runtime !== undefined && runtime !== job.runtime) return false;
  if (tag !== undefined && job.tags?.includes(tag) !== true) return false;
  if (machine !== undefined) return undefined;
  return q === undefined || job.name.includes(q.toLowerCase()) ? true : undefined;
}
