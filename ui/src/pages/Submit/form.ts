import type { Schemas } from '@/services/client';

/** The form "distributed training settings" as the page holds it; `requestOf` says what it means to the server. */
export interface Form {
  namespace: string;
  name: string;
  framework: Framework;
  multiNode: boolean;
  nodes: number;
  preset: string;
  gpu: number;
  cpu: number;
  memory: number;
  cpuLimit: number;
  memoryLimit: number;
  imageSource: 'built-in' | 'custom';
  image: string;
  codeSource: 'editor' | 'git';
  code: string;
  repository: string;
  branch: string;
  command: string;
  environment: { name: string; value: string }[];
  volumes: Schemas['VolumeRequest'][];
  sharedMemory: number;
  maxRestarts: number | '';
  ttlSeconds: number | '';
  deadlineSeconds: number | '';
  priority: number | '';
}

export const FRAMEWORKS = ['pytorch', 'tensorflow', 'horovod', 'jax', 'xgboost', 'deepspeed'] as const;
export type Framework = (typeof FRAMEWORKS)[number];

/** The sizes of the mockup, per node. */
export const PRESETS = {
  small: { gpu: 1, cpu: 4, memory: 16 },
  medium: { gpu: 2, cpu: 8, memory: 32 },
  large: { gpu: 4, cpu: 16, memory: 64 },
} as const;

export const EMPTY: Form = {
  namespace: '',
  name: '',
  framework: 'pytorch',
  multiNode: true,
  nodes: 2,
  preset: 'custom',
  gpu: 0,
  cpu: 1,
  memory: 1,
  cpuLimit: 1,
  memoryLimit: 1,
  imageSource: 'built-in',
  image: '',
  codeSource: 'editor',
  code: '',
  repository: '',
  branch: '',
  command: '',
  environment: [],
  volumes: [],
  sharedMemory: 0,
  maxRestarts: '',
  ttlSeconds: '',
  deadlineSeconds: '',
  priority: '',
};

export function requestOf(form: Form, user: string): Schemas['CreateRequest'] {
  const nodes = form.multiNode ? form.nodes : 1;
  const volumes = [
    ...form.volumes,
    ...(form.sharedMemory > 0
      ? [{ name: 'dshm', memory: gibibytes(form.sharedMemory), mountPath: '/dev/shm', readOnly: false }]
      : []),
  ];
  return {
    user_id: user,
    namespace: form.namespace,
    framework: form.framework,
    num_nodes: nodes,
    cpu_request: String(form.cpu),
    cpu_limit: String(Math.max(form.cpu, form.cpuLimit)),
    memory_request: gibibytes(form.memory),
    memory_limit: gibibytes(Math.max(form.memory, form.memoryLimit)),
    gpu_count: form.gpu,
    ...(form.name !== '' && { name: form.name }),
    ...(form.imageSource === 'custom' && form.image !== '' && { image: form.image }),
    ...(form.codeSource === 'editor' ? { training_code: form.code } : { git_repository: form.repository }),
    ...(form.codeSource === 'git' && form.branch !== '' && { git_branch: form.branch }),
    ...(form.command !== '' && { command: form.command }),
    ...(form.environment.length > 0 && { env_vars: form.environment }),
    ...(volumes.length > 0 && { volumes }),
    ...(form.maxRestarts !== '' && { max_restarts: form.maxRestarts }),
    ...(form.ttlSeconds !== '' && { ttl_seconds_after_finished: form.ttlSeconds }),
    ...(form.deadlineSeconds !== '' && { deadline_seconds: form.deadlineSeconds }),
    ...(form.priority !== '' && { priority: form.priority }),
  };
}

/** The other way: a create request (a cloned job, the last one) as the form shows it. */
export function formOf(request: Schemas['CreateRequest']): Form {
  const nodes = request.num_nodes ?? request.config?.num_nodes ?? 1;
  const shared = (request.volumes ?? []).find(
    (volume) => volume.mountPath === '/dev/shm' && volume.memory != null,
  );
  const cpu = numberOf(request.cpu_request ?? request.config?.cpu_per_node ?? EMPTY.cpu);
  const memory = inGibibytes(request.memory_request ?? request.config?.memory_per_node ?? '1Gi');
  return {
    ...EMPTY,
    namespace: request.namespace,
    framework: FRAMEWORKS.find((one) => one === request.framework) ?? 'pytorch',
    multiNode: nodes > 1,
    nodes: Math.max(2, nodes),
    gpu: request.gpu_count ?? request.config?.gpu_per_node ?? 0,
    cpu,
    memory,
    cpuLimit: numberOf(request.cpu_limit ?? cpu),
    memoryLimit: request.memory_limit == null ? memory : inGibibytes(request.memory_limit),
    imageSource: request.image == null ? 'built-in' : 'custom',
    image: request.image ?? '',
    codeSource: request.git_repository == null ? 'editor' : 'git',
    code: request.training_code ?? '',
    repository: request.git_repository ?? '',
    branch: request.git_branch ?? '',
    command: request.command ?? '',
    environment: (request.env_vars ?? []).map(({ name, value }) => ({ name, value: value ?? '' })),
    volumes: (request.volumes ?? []).filter((volume) => volume !== shared),
    sharedMemory: shared?.memory == null ? 0 : inGibibytes(shared.memory),
    maxRestarts: request.max_restarts ?? '',
    ttlSeconds: request.ttl_seconds_after_finished ?? '',
    deadlineSeconds: request.deadline_seconds ?? '',
    priority: request.priority ?? '',
  };
}

/** The same request for a terminal. */
export function curlOf(request: Schemas['CreateRequest'], origin: string): string {
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -X POST ${origin}/api/trainjob/create \\\n  -H "Authorization: Bearer $ASTRAGO_TOKEN" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

export function commandOf(request: Schemas['CreateRequest']): string {
  const parts = [
    'astrago run train.py',
    `--nodes ${request.num_nodes ?? 1}`,
    `--framework ${request.framework}`,
    `--namespace ${request.namespace}`,
    `--cpu ${request.cpu_request ?? 1}`,
    `--memory ${request.memory_request ?? '1Gi'}`,
    ...((request.gpu_count ?? 0) > 0 ? [`--gpus ${request.gpu_count ?? 0}`] : []),
    ...(request.image == null ? [] : [`--image ${quoted(request.image)}`]),
    ...(request.env_vars ?? []).map(
      (variable) => `--env ${quoted(`${variable.name}=${variable.value ?? ''}`)}`,
    ),
    ...(request.max_restarts == null ? [] : [`--max-restarts ${request.max_restarts}`]),
    ...(request.name == null ? [] : [`--name ${request.name}`]),
  ];
  return parts.join(' \\\n  ');
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function gibibytes(value: number): string {
  return Number.isInteger(value) ? `${value}Gi` : `${Math.round(value * 1024)}Mi`;
}

function inGibibytes(quantity: string): number {
  const match = /^([\d.]+)([KMGT]i?)?$/.exec(quantity);
  if (match === null) return 1;
  const scale: Record<string, number> = {
    Ki: 2 ** -20,
    Mi: 2 ** -10,
    Gi: 1,
    Ti: 1024,
    K: 1e3 / 2 ** 30,
    M: 1e6 / 2 ** 30,
    G: 1e9 / 2 ** 30,
    T: 1e12 / 2 ** 30,
  };
  return Number(match[1]) * (scale[match[2] ?? ''] ?? 2 ** -30);
}

function numberOf(value: unknown): number {
  const text = String(value);
  return text.endsWith('m') ? Number(text.slice(0, -1)) / 1000 : Number(text) || 1;
}
