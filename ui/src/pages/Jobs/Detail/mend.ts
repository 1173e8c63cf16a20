import { gibibytes, inGibibytes, SHARED_MEMORY } from '@/pages/Submit/form';
import type { Schemas } from '@/services/client';

type Request = Schemas['CreateRequest'];

/** What would mend a failure: more of something, another try, or a change that only its author can make. */
export type Mend =
  | { by: 'memory' | 'sharedMemory'; gib: number; request: Request }
  | { by: 'time'; seconds: number; request: Request }
  | { by: 'again'; request: Request }
  | { by: 'change' };

/** What may go well the next time without any change. */
const CHANCE: Schemas['FailureKind'][] = ['collective_timeout', 'rendezvous_failed', 'signal'];

/** As Kubernetes gives it to a container that asks for nothing else. */
const USUAL_SHARED = 1 / 16;

/** What most would do next about a failure of a job that was made by this request, on machines of at most so many GiB. */
export function mendOf(failure: Schemas['Failure'], request: Request, most = Infinity): Mend {
  const memory = request.memory_limit ?? request.memory_request;
  if (failure.kind === 'out_of_memory' && memory != null) {
    const gib = Math.min(inGibibytes(memory) * 2, Math.floor(most * 4) / 4);
    const size = gibibytes(gib);
    if (gib > inGibibytes(memory))
      return { by: 'memory', gib, request: { ...request, memory_request: size, memory_limit: size } };
  }
  if (failure.kind === 'disk_full' && /\bshm|<\/torch_/.test(failure.evidence.join('\n')))
    return withSharedMemory(request);
  if (failure.kind === 'deadline' && request.deadline_seconds != null) {
    const seconds = request.deadline_seconds * 2;
    return { by: 'time', seconds, request: { ...request, deadline_seconds: seconds } };
  }
  return CHANCE.includes(failure.kind) && !failure.permanent ? { by: 'again', request } : { by: 'change' };
}

/** With twice the room that processes share, and at least enough for the loaders of most trainings. */
function withSharedMemory(request: Request): Mend {
  const others = (request.volumes ?? []).filter((one) => one.mountPath !== SHARED_MEMORY);
  const had = request.volumes?.find((one) => one.mountPath === SHARED_MEMORY)?.memory;
  const gib = Math.max(1, (had == null ? USUAL_SHARED : inGibibytes(had)) * 2);
  const shared = { name: 'dshm', memory: gibibytes(gib), mountPath: SHARED_MEMORY, readOnly: false };
  return { by: 'sharedMemory', gib, request: { ...request, volumes: [...others, shared] } };
}
