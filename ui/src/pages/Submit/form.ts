import { withoutPassword, withoutSecrets } from '@/libs/own';
import type { Schemas } from '@/services/client';

type Request = Schemas['CreateRequest'];

/** The form "distributed training settings" as the page holds it; `requestOf` says what it means to the server. */
export interface Form {
  namespace: string;
  name: string;
  framework: Framework;
  /** A runtime other than the framework's own. */
  runtime: string;
  multiNode: boolean;
  nodes: number;
  gpu: number;
  cpu: number;
  memory: number;
  cpuLimit: number;
  memoryLimit: number;
  launcherCpu: number;
  launcherMemory: number;
  imageSource: ImageSource;
  image: string;
  codeSource: CodeSource;
  code: string;
  /** The digest of an uploaded folder, the script of it to start (empty: the usual one), and those it has. */
  snapshot: string;
  entry: string;
  scripts: string[];
  repository: string;
  branch: string;
  secret: string;
  command: string;
  environment: { name: string; value: string }[];
  volumes: Schemas['VolumeRequest'][];
  selector: { name: string; value: string }[];
  sharedMemory: number;
  checkpoint: boolean;
  checkpointSize: number;
  maxRestarts: number | '';
  ttlSeconds: number | '';
  deadlineSeconds: number | '';
  priority: number | '';
}

/** Typed or a file, a folder that is uploaded, a repository, or nothing because the image has it. */
export type CodeSource = 'editor' | 'folder' | 'git' | 'image';

/** The framework's image, one that is known here, or any by its address. */
export type ImageSource = 'built-in' | 'custom' | 'container';

export const FRAMEWORKS = ['pytorch', 'tensorflow', 'horovod', 'jax', 'xgboost', 'deepspeed', 'mlx'] as const;
export type Framework = (typeof FRAMEWORKS)[number];

/** Whether a launcher starts the workers and does not train itself. */
export function hasLauncher(framework: Framework): boolean {
  return framework === 'horovod';
}

export const EMPTY: Form = {
  namespace: '',
  name: '',
  framework: 'pytorch',
  runtime: '',
  multiNode: true,
  nodes: 2,
  gpu: 0,
  cpu: 1,
  memory: 1,
  cpuLimit: 1,
  memoryLimit: 1,
  launcherCpu: 0.5,
  launcherMemory: 1,
  imageSource: 'built-in',
  image: '',
  codeSource: 'editor',
  code: '',
  snapshot: '',
  entry: '',
  scripts: [],
  repository: '',
  branch: '',
  secret: '',
  command: '',
  environment: [],
  volumes: [],
  selector: [],
  sharedMemory: 0,
  checkpoint: false,
  checkpointSize: 10,
  maxRestarts: '',
  ttlSeconds: '',
  deadlineSeconds: '',
  priority: '',
};

const SHARED_MEMORY = '/dev/shm';

export function requestOf(form: Form, user: string): Request {
  const nodes = form.multiNode ? form.nodes : 1;
  const volumes = [
    ...form.volumes.filter((one) => blanksOf(one).length === 0),
    ...(form.sharedMemory > 0
      ? [{ name: 'dshm', memory: gibibytes(form.sharedMemory), mountPath: SHARED_MEMORY, readOnly: false }]
      : []),
  ];
  const environment = form.environment.filter((one) => blanksOf(one).length === 0);
  const selector = form.selector.filter((one) => blanksOf(one).length === 0);
  return {
    user_id: user,
    namespace: form.namespace,
    framework: form.framework,
    num_nodes: nodes,
    cpu_request: String(form.cpu),
    cpu_limit: String(form.cpuLimit),
    memory_request: gibibytes(form.memory),
    memory_limit: gibibytes(form.memoryLimit),
    gpu_count: form.gpu,
    ...(hasLauncher(form.framework) && {
      launcher_cpu: String(form.launcherCpu),
      launcher_memory: gibibytes(form.launcherMemory),
    }),
    ...(form.name !== '' && { name: form.name }),
    ...(form.runtime !== '' && { runtime: form.runtime }),
    ...(form.imageSource !== 'built-in' && form.image !== '' && { image: form.image }),
    ...codeOf(form),
    ...(form.command !== '' && { command: form.command }),
    ...(environment.length > 0 && { env_vars: environment }),
    ...(volumes.length > 0 && { volumes }),
    ...(selector.length > 0 && {
      node_selector: Object.fromEntries(selector.map((one) => [one.name, one.value])),
    }),
    ...(form.checkpoint && { checkpoint: true, checkpoint_size: gibibytes(form.checkpointSize) }),
    ...(form.maxRestarts !== '' && { max_restarts: form.maxRestarts }),
    ...(form.ttlSeconds !== '' && { ttl_seconds_after_finished: form.ttlSeconds }),
    ...(form.deadlineSeconds !== '' && { deadline_seconds: form.deadlineSeconds }),
    ...(form.priority !== '' && { priority: form.priority }),
  };
}

type Row = Form['environment' | 'volumes' | 'selector'][number];

/** What a row lacks to mean something; such a row is no part of the request yet. */
function blanksOf(row: Row): string[] {
  if (!('mountPath' in row)) return row.name === '' ? ['name'] : [];
  const source = row.pvc ?? row.configMap ?? row.hostPath ?? row.memory ?? '';
  return [
    ...(row.name === '' ? ['name'] : []),
    ...(source === '' ? ['pvc'] : []),
    ...(row.mountPath === '' ? ['mountPath'] : []),
  ];
}

const LISTS = ['environment', 'volumes', 'selector'] as const;

/** The empty fields of rows that were begun and not finished: nothing may be submitted without them. */
export function unfinished(form: Form): string[] {
  return LISTS.flatMap((list) =>
    form[list].flatMap((row, index) => {
      const begun = Object.values(row).some((value) => typeof value === 'string' && value !== '');
      return begun ? blanksOf(row).map((field) => `${list}.${index}.${field}`) : [];
    }),
  );
}

/** The form as it may stay in the browser: without secrets. */
export function keepable(form: Form): Form {
  return {
    ...form,
    environment: withoutSecrets(form.environment),
    repository: withoutPassword(form.repository),
  };
}

function codeOf(form: Form): Partial<Request> {
  switch (form.codeSource) {
    case 'editor':
      return { training_code: form.code };
    case 'folder':
      return { snapshot: form.snapshot, ...(form.entry !== '' && { entry: form.entry }) };
    case 'git':
      return {
        git_repository: form.repository,
        ...(form.branch !== '' && { git_branch: form.branch }),
        ...(form.secret !== '' && { git_secret: form.secret }),
      };
    case 'image':
      // Said outright, so that a forgotten script is not mistaken for it.
      return { training_code: '' };
  }
}

/** Whether there is something to run. */
export function hasCode(form: Form): boolean {
  switch (form.codeSource) {
    case 'editor':
      return form.code !== '';
    case 'folder':
      return form.snapshot !== '';
    case 'git':
      return form.repository !== '';
    case 'image':
      return form.command !== '';
  }
}

/** The other way: a create request (a cloned job, the last one) as the form shows it. */
export function formOf(request: Request): Form {
  const nodes = request.num_nodes ?? request.config?.num_nodes ?? 1;
  const shared = (request.volumes ?? []).find(
    (volume) => volume.mountPath === SHARED_MEMORY && volume.memory != null,
  );
  const cpu = numberOf(request.cpu_request ?? request.config?.cpu_per_node ?? EMPTY.cpu);
  const memory = inGibibytes(request.memory_request ?? request.config?.memory_per_node ?? '1Gi');
  return {
    ...EMPTY,
    namespace: request.namespace,
    framework: FRAMEWORKS.find((one) => one === request.framework) ?? 'pytorch',
    runtime: request.runtime ?? '',
    multiNode: nodes > 1,
    nodes: Math.max(2, nodes),
    gpu: request.gpu_count ?? request.config?.gpu_per_node ?? 0,
    cpu,
    memory,
    cpuLimit: numberOf(request.cpu_limit ?? cpu),
    memoryLimit: request.memory_limit == null ? memory : inGibibytes(request.memory_limit),
    launcherCpu: numberOf(request.launcher_cpu ?? EMPTY.launcherCpu),
    launcherMemory:
      request.launcher_memory == null ? EMPTY.launcherMemory : inGibibytes(request.launcher_memory),
    imageSource: request.image == null ? 'built-in' : 'container',
    image: request.image ?? '',
    codeSource: sourceOf(request),
    code: request.training_code ?? '',
    snapshot: request.snapshot ?? '',
    entry: request.entry ?? '',
    scripts: request.entry == null ? [] : [request.entry],
    repository: request.git_repository ?? '',
    branch: request.git_branch ?? request.git_revision ?? '',
    secret: request.git_secret ?? '',
    command: request.command ?? '',
    environment: (request.env_vars ?? []).map(({ name, value }) => ({ name, value: value ?? '' })),
    volumes: (request.volumes ?? []).filter((volume) => volume !== shared),
    selector: Object.entries(request.node_selector ?? {}).map(([name, value]) => ({ name, value })),
    sharedMemory: shared?.memory == null ? 0 : inGibibytes(shared.memory),
    checkpoint: request.checkpoint ?? false,
    checkpointSize:
      request.checkpoint_size == null ? EMPTY.checkpointSize : inGibibytes(request.checkpoint_size),
    maxRestarts: request.max_restarts ?? '',
    ttlSeconds: request.ttl_seconds_after_finished ?? '',
    deadlineSeconds: request.deadline_seconds ?? '',
    priority: request.priority ?? '',
  };
}

function sourceOf(request: Request): CodeSource {
  if (request.snapshot != null) return 'folder';
  if (request.git_repository != null) return 'git';
  return request.training_code === '' && (request.command ?? '') !== '' ? 'image' : 'editor';
}

/** The fields of the server's answers, by the field of the form that shows them. */
const FIELDS: Record<string, keyof Form> = {
  name: 'name',
  namespace: 'namespace',
  framework: 'framework',
  runtime: 'runtime',
  num_nodes: 'nodes',
  gpu_count: 'gpu',
  cpu_request: 'cpu',
  cpu_limit: 'cpuLimit',
  memory_request: 'memory',
  memory_limit: 'memoryLimit',
  launcher_cpu: 'launcherCpu',
  launcher_memory: 'launcherMemory',
  image: 'image',
  training_code: 'code',
  git_repository: 'repository',
  git_branch: 'branch',
  git_secret: 'secret',
  snapshot: 'snapshot',
  entry: 'entry',
  command: 'command',
  checkpoint_size: 'checkpointSize',
  max_restarts: 'maxRestarts',
  ttl_seconds_after_finished: 'ttlSeconds',
  deadline_seconds: 'deadlineSeconds',
  priority: 'priority',
};

/** The field of the form that a field of a request is, such as `environment.0.name` for `env_vars[0].name`. */
export function fieldOf(path: string, form: Form): string | undefined {
  const item = /^(env_vars|volumes)\[(\d+)\](?:\.(\w+))?/.exec(path);
  if (item === null) return FIELDS[path];
  const [, list, at = '0', field = 'name'] = item;
  const rows = list === 'env_vars' ? 'environment' : 'volumes';
  // The request has only the rows that are filled in; shared memory is its last volume and no row of the form.
  const sent = form[rows].flatMap((row, index) => (blanksOf(row).length === 0 ? [index] : []));
  const index = sent[Number(at)];
  return index === undefined ? 'sharedMemory' : `${rows}.${index}.${field}`;
}

/** The same request for a terminal. */
export function curlOf(request: Request, origin: string): string {
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -X POST ${origin}/api/trainjob/create \\\n  -H "Authorization: Bearer $ASTRAGO_TOKEN" \\\n  -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

/** The same request for a terminal, beside the code; what `astrago run` has no option for stays out. */
export function commandOf(request: Request): string {
  const parts = [
    `astrago run ${request.snapshot == null ? 'train.py' : '.'}`,
    ...(request.entry == null ? [] : [`--entry ${quoted(request.entry)}`]),
    `--nodes ${request.num_nodes ?? 1}`,
    `--framework ${request.framework}`,
    `--namespace ${request.namespace}`,
    ...(request.runtime == null ? [] : [`--runtime ${quoted(request.runtime)}`]),
    `--cpu ${request.cpu_request ?? 1}`,
    `--memory ${request.memory_request ?? '1Gi'}`,
    ...(request.launcher_cpu == null ? [] : [`--launcher-cpu ${request.launcher_cpu}`]),
    ...(request.launcher_memory == null ? [] : [`--launcher-memory ${request.launcher_memory}`]),
    ...((request.gpu_count ?? 0) > 0 ? [`--gpus ${request.gpu_count ?? 0}`] : []),
    ...(request.image == null ? [] : [`--image ${quoted(request.image)}`]),
    ...(request.env_vars ?? []).map(
      (variable) => `--env ${quoted(`${variable.name}=${variable.value ?? ''}`)}`,
    ),
    ...(request.max_restarts == null ? [] : [`--max-restarts ${request.max_restarts}`]),
    ...(request.checkpoint === true ? ['--checkpoint'] : []),
    ...(request.name == null ? [] : [`--name ${request.name}`]),
  ];
  return parts.join(' \\\n  ');
}

function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

export function gibibytes(value: number): string {
  return Number.isInteger(value) ? `${value}Gi` : `${Math.round(value * 1024)}Mi`;
}

export function inGibibytes(quantity: string): number {
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
