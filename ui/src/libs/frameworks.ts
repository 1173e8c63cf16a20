import type { Schemas } from '@/services/client';

type Runtime = Schemas['Runtime'];

/** The framework of a new job. */
export const USUAL = 'pytorch';

/** The runtime for each framework that there is one for: first the usual one, then by how they are started and by name. */
export function frameworksOf(runtimes: Runtime[] | undefined): (Runtime & { framework: string })[] {
  const named = (runtimes ?? []).flatMap((one) =>
    one.framework == null || one.fetches_git ? [] : [{ ...one, framework: one.framework }],
  );
  const best = named.toSorted(
    (a, b) => Number(b.default) - Number(a.default) || Number(a.deprecated) - Number(b.deprecated),
  );
  const chosen = best.filter(
    (one, at) => best.findIndex((other) => other.framework === one.framework) === at,
  );
  const rank = (one: Runtime) => (one.framework === USUAL ? 0 : byMpi(one) ? 2 : 1);
  return chosen.toSorted((a, b) => rank(a) - rank(b) || a.title.localeCompare(b.title));
}

/** Whether mpirun starts the nodes. */
export function byMpi(runtime: Runtime): boolean {
  return runtime.jobs.includes('launcher');
}

/** The runtime that a job gets: the one it names, or the one for its framework. */
export function runtimeOf(
  job: { framework: string; runtime: string },
  runtimes: Runtime[] | undefined,
): Runtime | undefined {
  if (job.runtime !== '') return runtimes?.find((one) => one.name === job.runtime);
  return frameworksOf(runtimes).find((one) => one.framework === job.framework);
}
