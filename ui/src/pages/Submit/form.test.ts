import { describe, expect, it } from 'vitest';

import { commandOf, curlOf, EMPTY, formOf, requestOf } from './form';

const form = {
  ...EMPTY,
  namespace: 'user-123',
  code: "print('x')",
  nodes: 3,
  cpu: 2,
  cpuLimit: 4,
  memory: 0.5,
  memoryLimit: 1,
};

describe('the form', () => {
  it('becomes a create request', () => {
    expect(requestOf(form, 'user123')).toEqual({
      user_id: 'user123',
      namespace: 'user-123',
      framework: 'pytorch',
      training_code: "print('x')",
      num_nodes: 3,
      cpu_request: '2',
      cpu_limit: '4',
      memory_request: '512Mi',
      memory_limit: '1Gi',
      gpu_count: 0,
    });
  });

  it('is one node when it is not a multi-node job', () => {
    expect(requestOf({ ...form, multiNode: false }, 'u').num_nodes).toBe(1);
  });

  it('never limits below what it requests', () => {
    expect(requestOf({ ...form, cpuLimit: 1 }, 'u').cpu_limit).toBe('2');
  });

  it('comes back from its own request', () => {
    const full = {
      ...form,
      sharedMemory: 2,
      environment: [{ name: 'EPOCHS', value: '3' }],
      volumes: [{ name: 'data', pvc: 'data', mountPath: '/data', readOnly: true }],
      maxRestarts: 2,
    };
    expect(formOf(requestOf(full, 'u'))).toEqual(full);
  });

  it('quotes for the shell', () => {
    const request = requestOf({ ...form, environment: [{ name: 'A', value: "it's" }] }, 'u');
    expect(commandOf(request)).toContain(`--env 'A=it'\\''s'`);
    expect(curlOf(request, 'http://x')).toContain(`print('\\''x'\\'')`);
  });
});
