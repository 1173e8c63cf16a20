import { gibibytes, inGibibytes } from '@/pages/Submit/form';
import type { Schemas } from '@/services/client';

type Request = Schemas['CreateRequest'];

/** What would mend a failure: more of something, another try, or a change that only its author can make. */
export type Mend =
  | { by: 'memory'; gib: number; request: Request }
  | { by: 'time'; seconds: number; request: Request }
  | { by: 'again'; request: Request }
  | { by: 'change' };

/** What may go well the next time without any change. */
const CHANCE: Schemas['FailureKind'][] = ['collective_timeout', 'rendezvous_failed', 'signal'];

/** What most would do next about a failure of a job that was made by this request. */
export function mendOf(failure: Schemas['Failure'], request: Request): Mend {
  const memory = request.memory_limit ?? request.memory_request;
  if (failure.kind === 'out_of_memory' && memory != null) {
    const gib = inGibibytes(memory) * 2;
    const size = gibibytes(gib);
    return { by: 'memory', gib, request: { ...request, memory_request: size, memory_limit: size } };
  }
  if (failure.kind === 'deadline' && request.deadline_seconds != null) {
    const seconds = request.deadline_seconds * 2;
    return { by: 'time', seconds, request: { ...request, deadline_seconds: seconds } };
  }
  return CHANCE.includes(failure.kind) && !failure.permanent ? { by: 'again', request } : { by: 'change' };
}
