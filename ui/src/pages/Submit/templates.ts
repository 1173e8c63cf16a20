import type { Form } from './form';

/** The example scripts of the runtimes are the templates of the form: one source for both. Read when one is picked. */
const SCRIPTS = import.meta.glob<string>('../../../../runtimes/*/train.py', {
  query: '?raw',
  import: 'default',
});

export interface Template {
  runtime: string;
  form: Partial<Form>;
}

const small: Partial<Form> = {
  codeSource: 'editor',
  multiNode: true,
  nodes: 2,
  gpu: 0,
  cpu: 0.25,
  cpuLimit: 1,
  memory: 0.5,
  memoryLimit: 2,
  runtime: '',
  command: '',
  environment: [],
};

/** One for each runtime of the catalogue that has an example to train. */
export const TEMPLATES: Template[] = [
  { runtime: 'pytorch-simple', form: { ...small, framework: 'pytorch' } },
  {
    runtime: 'torch-distributed',
    form: {
      ...small,
      framework: 'pytorch',
      runtime: 'torch-distributed',
      command: 'torchrun /workspace/scripts/train.py',
    },
  },
  { runtime: 'tensorflow-distributed', form: { ...small, framework: 'tensorflow', memory: 1 } },
  {
    runtime: 'horovod-distributed',
    form: { ...small, framework: 'horovod', launcherCpu: 0.25, launcherMemory: 0.5 },
  },
  { runtime: 'deepspeed-distributed', form: { ...small, framework: 'deepspeed', memory: 1 } },
  {
    runtime: 'mlx-distributed',
    form: {
      ...small,
      framework: 'mlx',
      // MLX loads MPI by this name; the plain libmpi.so comes with development packages only.
      environment: [{ name: 'MLX_MPI_LIBNAME', value: 'libmpi.so.40' }],
    },
  },
  { runtime: 'jax-distributed', form: { ...small, framework: 'jax', memory: 1 } },
  { runtime: 'xgboost-distributed', form: { ...small, framework: 'xgboost', memory: 1 } },
];

export async function filled({ runtime, form }: Template): Promise<Partial<Form>> {
  const code = await SCRIPTS[`../../../../runtimes/${runtime}/train.py`]?.();
  return { ...form, code: code ?? '' };
}
