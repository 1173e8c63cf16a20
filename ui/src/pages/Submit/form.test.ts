import { describe, expect, it } from 'vitest';

import { commandOf, curlOf, EMPTY, fieldOf, formOf, hasCode, keepable, requestOf, unfinished } from './form';

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

  it('gives the launcher of Horovod sizes of its own, and PyTorch none', () => {
    const horovod = requestOf({ ...form, framework: 'horovod', launcherCpu: 0.5, launcherMemory: 2 }, 'u');
    expect(horovod).toMatchObject({ launcher_cpu: '0.5', launcher_memory: '2Gi' });
    expect(requestOf(form, 'u')).not.toHaveProperty('launcher_cpu');
  });

  it('shows an error at its field, rows of lists included', () => {
    const full = { ...form, volumes: [{ name: 'a', pvc: 'a', mountPath: '/a' }] };
    expect(fieldOf('num_nodes', full)).toBe('nodes');
    const environment = ['A', '', 'B'].map((name) => ({ name, value: '' }));
    expect(fieldOf('env_vars[1].name', { ...full, environment })).toBe('environment.2.name');
    expect(fieldOf('volumes[0].mountPath', full)).toBe('volumes.0.mountPath');
    expect(fieldOf('volumes[1].memory', full)).toBe('sharedMemory');
    expect(fieldOf('spec.trainer', full)).toBeUndefined();
  });

  it('sends no row before it is filled in, and says which are not', () => {
    const rows = {
      ...form,
      environment: [
        { name: '', value: '' },
        { name: '', value: '3' },
        { name: 'EPOCHS', value: '' },
      ],
      volumes: [
        { name: '', pvc: '', mountPath: '', readOnly: false },
        { name: 'data', pvc: '', mountPath: '', readOnly: false },
      ],
    };
    expect(requestOf(rows, 'u').env_vars).toEqual([{ name: 'EPOCHS', value: '' }]);
    expect(requestOf(rows, 'u')).not.toHaveProperty('volumes');
    expect(unfinished(rows)).toEqual(['environment.1.name', 'volumes.1.pvc', 'volumes.1.mountPath']);
  });

  it('is kept in the browser without secrets', () => {
    const secret = {
      ...form,
      environment: [{ name: 'HF_TOKEN', value: 'hush' }],
      repository: 'https://me:hush@host/x.git',
    };
    expect(JSON.stringify(keepable(secret))).not.toContain('hush');
  });

  it('comes back from its own request', () => {
    const full = {
      ...form,
      sharedMemory: 2,
      environment: [{ name: 'EPOCHS', value: '3' }],
      volumes: [{ name: 'data', pvc: 'data', mountPath: '/data', readOnly: true }],
      maxRestarts: 2,
      framework: 'horovod' as const,
      launcherCpu: 2,
      checkpoint: true,
      checkpointSize: 5,
      runtime: 'torch-distributed',
      imageSource: 'container' as const,
      image: 'a/b:1',
      selector: [{ name: 'zone', value: 'a' }],
    };
    expect(formOf(requestOf(full, 'u'))).toEqual(full);
  });

  it.each([
    [{ codeSource: 'folder' as const, code: '', snapshot: 'sha256:ab', entry: 'a.py', scripts: ['a.py'] }],
    [{ codeSource: 'git' as const, code: '', repository: 'https://x/y.git', branch: 'main', secret: 'key' }],
    [{ codeSource: 'image' as const, code: '', command: 'run' }],
  ])('has code from elsewhere, and knows it again: %o', (more) => {
    const other = { ...form, ...more };
    expect(hasCode(other)).toBe(true);
    expect(formOf(requestOf(other, 'u'))).toEqual(other);
    expect(hasCode({ ...other, snapshot: '', repository: '', command: '' })).toBe(false);
  });

  it('quotes for the shell', () => {
    const request = requestOf({ ...form, environment: [{ name: 'A', value: "it's" }] }, 'u');
    expect(commandOf(request)).toContain(`--env 'A=it'\\''s'`);
    expect(curlOf(request, 'http://x')).toContain(`print('\\''x'\\'')`);
  });
});
