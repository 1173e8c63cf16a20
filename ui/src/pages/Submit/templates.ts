import type { Schemas } from '@/services/client';

import type { Form } from './form';

/** The example scripts of the runtimes are the templates of the form: one source for both. Read when one is picked. */
const SCRIPTS = import.meta.glob<string>('../../../../runtimes/*/train.py', {
  query: '?raw',
  import: 'default',
});

const scriptOf = (runtime: string) => SCRIPTS[`../../../../runtimes/${runtime}/train.py`];

/** The runtimes of the cluster that have an example to train. */
export function templatesOf(runtimes: Schemas['Runtime'][]): Schemas['Runtime'][] {
  return runtimes.filter((one) => !one.fetches_git && scriptOf(one.name) !== undefined);
}

export async function filled(runtime: Schemas['Runtime']): Promise<Partial<Form>> {
  return {
    framework: runtime.framework ?? '',
    runtime: runtime.default ? '' : runtime.name,
    codeSource: 'editor',
    training_code: (await scriptOf(runtime.name)?.()) ?? '',
    multiNode: true,
    num_nodes: 2,
    gpu_count: 0,
    cpu_request: 0.25,
    cpu_limit: 1,
    memory_request: 1,
    memory_limit: 2,
    launcher_cpu: 0.25,
    launcher_memory: 0.5,
    command: '',
    arguments: [],
    nproc_per_node: '',
    env_vars: [],
  };
}
