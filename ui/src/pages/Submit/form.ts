import { USUAL } from '@/libs/frameworks';
import { withoutPassword, withoutSecrets } from '@/libs/own';
import type { Schemas } from '@/services/client';

type Request = Schemas['CreateRequest'];

/** Amounts that the page edits as numbers: cores, and GiB. */
const CORES = ['cpu_request', 'cpu_limit', 'launcher_cpu'] as const;
const GIBIBYTES = ['memory_request', 'memory_limit', 'launcher_memory', 'checkpoint_size'] as const;
type Amount = (typeof CORES | typeof GIBIBYTES)[number];

/** What an input shows as an empty text while the request does not have it. */
const TEXTS = [
  ...(['name', 'runtime', 'image', 'command'] as const),
  ...(['training_code', 'snapshot', 'entry', 'git_repository', 'git_branch', 'git_secret'] as const),
];
const NUMBERS = [
  ...([
    'nproc_per_node',
    'max_restarts',
    'ttl_seconds_after_finished',
    'deadline_seconds',
    'priority',
  ] as const),
];

/**
 * The form "distributed training settings": the fields of a create request under their own names, as inputs hold
 * them, and a little that only the page knows. What no input shows (`retry`, `source`, `origin`) stays as it came.
 */
export type Form = Omit<Request, 'user_id' | 'config' | keyof Edited> & Edited;

type Edited = Record<(typeof TEXTS)[number], string> &
  Record<(typeof NUMBERS)[number], number | ''> &
  Record<Amount | 'num_nodes' | 'gpu_count', number> & {
    arguments: string[];
    env_vars: Pair[];
    volumes: Schemas['VolumeRequest'][];
    node_selector: Pair[];
    checkpoint: boolean;
    multiNode: boolean;
    imageSource: ImageSource;
    codeSource: CodeSource;
    /** The scripts of an uploaded folder, to choose the one to start from. */
    scripts: string[];
    sharedMemory: number;
  };

type Pair = { name: string; value: string };

/** Typed or a file, a folder that is uploaded, a repository, or nothing because the image has it. */
export type CodeSource = 'editor' | 'folder' | 'git' | 'image';

/** The framework's image, one that is known here, or any by its address. */
export type ImageSource = 'built-in' | 'custom' | 'container';

export const EMPTY: Form = {
  ...(Object.fromEntries([...TEXTS, ...NUMBERS].map((field) => [field, ''])) as Record<
    (typeof TEXTS)[number] | (typeof NUMBERS)[number],
    ''
  >),
  namespace: '',
  framework: USUAL,
  multiNode: true,
  num_nodes: 2,
  gpu_count: 0,
  cpu_request: 1,
  memory_request: 1,
  cpu_limit: 1,
  memory_limit: 1,
  launcher_cpu: 0.5,
  launcher_memory: 1,
  imageSource: 'built-in',
  codeSource: 'editor',
  scripts: [],
  arguments: [],
  env_vars: [],
  volumes: [],
  node_selector: [],
  sharedMemory: 0,
  checkpoint: false,
  checkpoint_size: 10,
  origin: null,
};

export const SHARED_MEMORY = '/dev/shm';

/** What the form means to the server; `launcher` is whether its framework has one that does not train. */
export function requestOf(form: Form, user: string, launcher: boolean): Request {
  const { multiNode, imageSource, codeSource, sharedMemory } = form;
  const volumes = [
    ...form.volumes.filter((one) => blanksOf(one).length === 0),
    ...(sharedMemory > 0
      ? [{ name: 'dshm', memory: gibibytes(sharedMemory), mountPath: SHARED_MEMORY, readOnly: false }]
      : []),
  ];
  const selector = form.node_selector.filter((one) => blanksOf(one).length === 0);
  const amounts = {
    ...Object.fromEntries(CORES.map((field) => [field, String(form[field])])),
    ...Object.fromEntries(GIBIBYTES.map((field) => [field, gibibytes(form[field])])),
  };
  const unused = [
    ...['multiNode', 'imageSource', 'codeSource', 'scripts', 'sharedMemory'],
    ...(['editor', 'image'].includes(codeSource) ? [] : ['training_code']),
    ...(codeSource === 'folder' ? [] : ['snapshot', 'entry', 'source']),
    ...(codeSource === 'git'
      ? []
      : ['git_repository', 'git_branch', 'git_revision', 'git_depth', 'git_secret']),
    ...(imageSource === 'built-in' ? ['image'] : []),
    ...(launcher ? [] : ['launcher_cpu', 'launcher_memory']),
    ...(form.checkpoint ? [] : ['checkpoint', 'checkpoint_size']),
    // The server makes a command of these, if there is none.
    ...(form.command === '' ? [] : ['arguments', 'nproc_per_node']),
  ];
  const all = {
    ...form,
    ...amounts,
    num_nodes: multiNode ? form.num_nodes : 1,
    env_vars: form.env_vars.filter((one) => blanksOf(one).length === 0),
    volumes,
    node_selector:
      selector.length > 0 ? Object.fromEntries(selector.map((one) => [one.name, one.value])) : null,
  };
  const empty = (value: unknown) =>
    value == null || value === '' || (Array.isArray(value) && value.length === 0);
  const given = Object.entries(all).filter(([field, value]) => !unused.includes(field) && !empty(value));
  // Code that the image has is said outright, so that a forgotten script is not mistaken for it.
  const code =
    codeSource === 'editor'
      ? { training_code: form.training_code }
      : codeSource === 'image' && { training_code: '' };
  return { ...(Object.fromEntries(given) as Omit<Request, 'user_id'>), ...code, user_id: user };
}

/** The other way: a create request (a cloned job, the last one) as the form shows it. */
export function formOf(request: Request): Form {
  const nodes = request.num_nodes ?? 1;
  const shared = request.volumes?.find((one) => one.mountPath === SHARED_MEMORY && one.memory != null);
  const given = Object.entries(request).filter(([field, value]) => value != null && field !== 'user_id');
  const amounts = {
    cpu_limit: request.cpu_request,
    memory_limit: request.memory_request,
    ...Object.fromEntries(given),
  } as Request;
  const read = (fields: readonly Amount[], reader: (text: string) => number) =>
    Object.fromEntries(
      fields.map((field) => [field, amounts[field] == null ? EMPTY[field] : reader(amounts[field])]),
    );
  return {
    ...EMPTY,
    ...(Object.fromEntries(given) as Partial<Form>),
    ...read(CORES, numberOf),
    ...read(GIBIBYTES, inGibibytes),
    multiNode: nodes > 1,
    num_nodes: Math.max(2, nodes),
    imageSource: request.image == null ? 'built-in' : 'container',
    codeSource: sourceOf(request),
    scripts: request.entry == null ? [] : [request.entry],
    env_vars: (request.env_vars ?? []).map(({ name, value }) => ({ name, value: value ?? '' })),
    volumes: (request.volumes ?? []).filter((volume) => volume !== shared),
    node_selector: Object.entries(request.node_selector ?? {}).map(([name, value]) => ({ name, value })),
    sharedMemory: shared?.memory == null ? 0 : inGibibytes(shared.memory),
  };
}

function sourceOf(request: Request): CodeSource {
  if (request.snapshot != null) return 'folder';
  if (request.git_repository != null) return 'git';
  return request.training_code === '' && (request.command ?? '') !== '' ? 'image' : 'editor';
}

const LISTS = ['env_vars', 'volumes', 'node_selector'] as const;
type Row = Form[(typeof LISTS)[number]][number];

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
    env_vars: withoutSecrets(form.env_vars),
    git_repository: withoutPassword(form.git_repository),
    // The next job is no copy of what this one was a copy of.
    origin: null,
  };
}

/** Whether there is something to run. */
export function hasCode(form: Form): boolean {
  const needed = {
    editor: form.training_code,
    folder: form.snapshot,
    git: form.git_repository,
    image: form.command,
  };
  return needed[form.codeSource] !== '';
}

/** Where the form shows what is wrong with a field of a request, such as `env_vars.0.name` for `env_vars[0].name`. */
export function fieldOf(path: string, form: Form): string | undefined {
  const item = /^(env_vars|volumes)\[(\d+)\](?:\.(\w+))?/.exec(path);
  if (item === null) return path in form ? path : undefined;
  const [, list, at = '0', field = 'name'] = item;
  const rows = list === 'env_vars' ? 'env_vars' : 'volumes';
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
  const option = (name: string, value: unknown) =>
    value == null ? [] : [`--${name} ${quoted(String(value))}`];
  const parts = [
    `astrago run ${request.snapshot == null ? 'train.py' : '.'}`,
    ...option('entry', request.entry),
    ...option('nodes', request.num_nodes ?? 1),
    ...option('nproc-per-node', request.nproc_per_node),
    ...option('framework', request.framework),
    ...option('namespace', request.namespace),
    ...option('runtime', request.runtime),
    ...option('cpu', request.cpu_request ?? 1),
    ...option('memory', request.memory_request ?? '1Gi'),
    ...option('launcher-cpu', request.launcher_cpu),
    ...option('launcher-memory', request.launcher_memory),
    ...option('gpus', request.gpu_count === 0 ? null : request.gpu_count),
    ...option('image', request.image),
    ...(request.env_vars ?? []).flatMap(({ name, value }) => option('env', `${name}=${value ?? ''}`)),
    ...option('max-restarts', request.max_restarts),
    ...(request.checkpoint === true ? ['--checkpoint'] : []),
    ...option('name', request.name),
    ...((request.arguments ?? []).length > 0
      ? [`-- ${(request.arguments ?? []).map(quoted).join(' ')}`]
      : []),
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

function numberOf(text: string): number {
  return text.endsWith('m') ? Number(text.slice(0, -1)) / 1000 : Number(text) || 1;
}
