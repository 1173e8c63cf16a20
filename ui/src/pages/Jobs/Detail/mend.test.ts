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
