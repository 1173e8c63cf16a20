import type { Schemas } from '@/services/client';

/** What jobs that stand together have in common. */
export const GROUPINGS = ['user', 'state', 'framework', 'tags'] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** The group of a job, as the server calls it. */
export function groupOf(by: Grouping, job: Schemas['JobSummary']): string {
  if (by === 'tags') return (job.tags ?? []).join(', ');
  return job[by] ?? '';
}
