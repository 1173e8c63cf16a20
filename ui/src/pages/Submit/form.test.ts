import { describe, expect, it } from 'vitest';

import { commandOf, curlOf, EMPTY, fieldOf, formOf, hasCode, keepable, requestOf, unfinished } from './form';

const form = {
  ...EMPTY,
  namespace: 'user-123',
  training_code: "print('x')",
  num_nodes: 3,
  cpu_request: 2,
  cpu_limit: 4,
  memory_request: 0.5,
  memory_limit: 1,
};

describe('the form', () => {
  it('becomes a create request', () => {
    expect(requestOf(form, 'user123', false)).toEqual({
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
    expect(requestOf({ ...form, multiNode: false }, 'u', false).num_nodes).toBe(1);
  });

  it('gives the launcher of Horovod sizes of its own, and PyTorch none', () => {
    const horovod = requestOf(
      { ...form, framework: 'horovod', launcher_cpu: 0.5, launcher_memory: 2 },
      'u',
      true,
    );
    expect(horovod).toMatchObject({ launcher_cpu: '0.5', launcher_memory: '2Gi' });
    expect(requestOf(form, 'u', false)).not.toHaveProperty('launcher_cpu');
  });

  it('shows an error at its field, rows of lists included', () => {
    const full = { ...form, volumes: [{ name: 'a', pvc: 'a', mountPath: '/a' }] };
    expect(fieldOf('num_nodes', full)).toBe('num_nodes');
    const env_vars = ['A', '', 'B'].map((name) => ({ name, value: '' }));
    expect(fieldOf('env_vars[1].name', { ...full, env_vars })).toBe('env_vars.2.name');
    expect(fieldOf('volumes[0].mountPath', full)).toBe('volumes.0.mountPath');
    expect(fieldOf('volumes[1].memory', full)).toBe('sharedMemory');
    expect(fieldOf('spec.trainer', full)).toBeUndefined();
  });

  it('sends no row before it is filled in, and says which are not', () => {
    const rows = {
      ...form,
      env_vars: [
        { name: '', value: '' },
        { name: '', value: '3' },
        { name: 'EPOCHS', value: '' },
      ],
      volumes: [
        { name: '', pvc: '', mountPath: '', readOnly: false },
        { name: 'data', pvc: '', mountPath: '', readOnly: false },
      ],
    };
    expect(requestOf(rows, 'u', false).env_vars).toEqual([{ name: 'EPOCHS', value: '' }]);
    expect(requestOf(rows, 'u', false)).not.toHaveProperty('volumes');
    expect(unfinished(rows)).toEqual(['env_vars.1.name', 'volumes.1.pvc', 'volumes.1.mountPath']);
  });

  it('is kept in the browser without secrets', () => {
    const secret = {
      ...form,
      env_vars: [{ name: 'HF_TOKEN', value: 'hush' }],
      git_repository: 'https://me:hush@host/x.git',
    };
    expect(JSON.stringify(keepable(secret))).not.toContain('hush');
  });

  it('comes back from its own request', () => {
    const full = {
      ...form,
      sharedMemory: 2,
      env_vars: [{ name: 'EPOCHS', value: '3' }],
      volumes: [{ name: 'data', pvc: 'data', mountPath: '/data', readOnly: true }],
      max_restarts: 2,
      framework: 'horovod',
      arguments: ['--lr', 'two words'],
      nproc_per_node: 2,
      retry: 'all',
      launcher_cpu: 2,
      checkpoint: true,
      checkpoint_size: 5,
      runtime: 'torch-distributed',
      imageSource: 'container' as const,
      image: 'a/b:1',
      node_selector: [{ name: 'zone', value: 'a' }],
    };
    expect(formOf(requestOf(full, 'u', true))).toEqual(full);
  });

  it.each([
    [
      {
        codeSource: 'folder' as const,
        training_code: '',
        snapshot: 'sha256:ab',
        entry: 'a.py',
        scripts: ['a.py'],
      },
    ],
    [
      {
        codeSource: 'git' as const,
        training_code: '',
        git_repository: 'https://x/y.git',
        git_branch: 'main',
        git_secret: 'key',
      },
    ],
    [{ codeSource: 'image' as const, training_code: '', command: 'run' }],
  ])('has code from elsewhere, and knows it again: %o', (more) => {
    const other = { ...form, ...more };
    expect(hasCode(other)).toBe(true);
    expect(formOf(requestOf(other, 'u', false))).toEqual(other);
    expect(hasCode({ ...other, snapshot: '', git_repository: '', command: '' })).toBe(false);
  });

  it('quotes for the shell', () => {
    const request = requestOf({ ...form, env_vars: [{ name: 'A', value: "it's" }] }, 'u', false);
    expect(commandOf(request)).toContain(`--env 'A=it'\\''s'`);
    expect(curlOf(request, 'http://x')).toContain(`print('\\''x'\\'')`);
  });
});
