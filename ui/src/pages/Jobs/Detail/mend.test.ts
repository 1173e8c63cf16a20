import { describe, expect, it } from 'vitest';

import type { Schemas } from '@/services/client';

import { mendOf } from './mend';

const failure = (kind: Schemas['FailureKind'], permanent = false) =>
  ({ kind, permanent, evidence: [], summary: '', cause: { code: kind } }) as unknown as Schemas['Failure'];
const request = {
  user_id: 'me',
  namespace: 'default',
  framework: 'pytorch',
  memory_request: '256Mi',
  memory_limit: '512Mi',
  deadline_seconds: 60,
};

describe('what is offered after a failure', () => {
  it('is twice the memory where there was too little', () => {
    expect(mendOf(failure('out_of_memory'), request)).toMatchObject({
      by: 'memory',
      request: { memory_request: '1Gi', memory_limit: '1Gi', deadline_seconds: 60 },
    });
  });

  it('is twice the time where it ran out', () => {
    expect(mendOf(failure('deadline'), request)).toMatchObject({
      by: 'time',
      seconds: 120,
      request: { deadline_seconds: 120, memory_limit: '512Mi' },
    });
  });

  it('is no more memory than the largest machine has', () => {
    expect(mendOf(failure('out_of_memory'), request, 0.8)).toMatchObject({
      by: 'memory',
      request: { memory_request: '768Mi', memory_limit: '768Mi' },
    });
    expect(mendOf(failure('out_of_memory'), request, 0.5).by).toBe('change');
  });

  it('is more shared memory where that was full', () => {
    const full = { ...failure('disk_full'), evidence: ["No space left on device: '/dev/shm/batch'"] };
    const shared = (memory: string) => ({ name: 'dshm', mountPath: '/dev/shm', memory, readOnly: false });
    expect(mendOf(full, request)).toMatchObject({ request: { volumes: [shared('1Gi')] } });
    const had = { ...request, volumes: [shared('2Gi')] };
    expect(mendOf(full, had)).toMatchObject({
      by: 'sharedMemory',
      gib: 4,
      request: { volumes: [shared('4Gi')] },
    });
    expect(mendOf({ ...full, evidence: ['No space left on device: /data/x'] }, request).by).toBe('change');
  });

  it.each([
    ['another try where chance may have been to blame', failure('rendezvous_failed'), 'again'],
    ['a change where the same would fail again', failure('rendezvous_failed', true), 'change'],
    ['a change where the code is wrong', failure('syntax_error'), 'change'],
    ['a change where the GPU is too small', failure('gpu_out_of_memory'), 'change'],
  ])('is %s', (_, failed, by) => {
    expect(mendOf(failed, request).by).toBe(by);
  });

  it('is a change where no limit was asked for that could be raised', () => {
    const { user_id, namespace, framework } = request;
    for (const kind of ['out_of_memory', 'deadline'] as const)
      expect(mendOf(failure(kind), { user_id, namespace, framework }).by).toBe('change');
  });
});
