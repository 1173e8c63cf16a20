import { quantity } from '@/libs/amounts';
import { HIDDEN, withoutSecrets } from '@/libs/own';
import type { Schemas } from '@/services/client';

type Form = Schemas['CreateRequest'];

/** What is the same question for each job; names, code and where it runs are not settings. */
const OTHERS = ['user_id', 'namespace', 'name', 'training_code', 'env_vars', 'volumes', 'config', 'origin'];

/** The settings of a job as lines of a table; variables one by one, since that is where they differ most. */
export function settingsOf(form: Form): Map<string, string> {
  const lines = new Map<string, string>();
  for (const [key, value] of Object.entries(form)) {
    if (OTHERS.includes(key) || value == null || value === '') continue;
    lines.set(key, typeof value === 'object' ? JSON.stringify(value) : written(key, String(value)));
  }
  const variables = (form.env_vars ?? []).map(({ name, value }) => ({ name, value: value ?? '' }));
  for (const { name, value } of withoutSecrets(variables, HIDDEN)) lines.set(`$${name}`, value);
  for (const volume of form.volumes ?? [])
    lines.set(volume.mountPath, volume.pvc ?? volume.hostPath ?? volume.configMap ?? volume.memory ?? '');
  return lines;
}

/** Amounts in the units of the page; what else was typed stays as it is. */
function written(key: string, value: string): string {
  return /^(launcher_)?(cpu|memory)|_size$/.test(key) ? quantity(value) : value;
}

/** The settings by the words of the form, where it has one. */
export const LABELS = {
  framework: ['submit.framework'],
  runtime: ['submit.runtime'],
  num_nodes: ['submit.nodes'],
  cpu_request: ['nodes.cpu', 'submit.request'],
  cpu_limit: ['nodes.cpu', 'submit.limit'],
  memory_request: ['nodes.memory', 'submit.request'],
  memory_limit: ['nodes.memory', 'submit.limit'],
  gpu_count: ['nodes.gpu'],
  image: ['submit.image'],
  command: ['submit.command'],
  arguments: ['submit.arguments'],
  nproc_per_node: ['submit.processes'],
  git_repository: ['submit.repository'],
  git_branch: ['submit.branch'],
  max_restarts: ['submit.maxRestarts'],
  deadline_seconds: ['submit.deadline'],
  ttl_seconds_after_finished: ['submit.ttl'],
  priority: ['submit.priority'],
  checkpoint: ['submit.checkpoints'],
} as const;

export interface Row {
  name: string;
  values: (string | undefined)[];
  differs: boolean;
}

/** One row for each line that any of them has, in the order in which they first appear. */
export function rowsOf(columns: (Map<string, string> | undefined)[]): Row[] {
  const names = [...new Set(columns.flatMap((column) => [...(column?.keys() ?? [])]))];
  return names.map((name) => {
    const values = columns.map((column) => column?.get(name));
    return { name, values, differs: new Set(values).size > 1 };
  });
}

/** How it came out. */
export function resultsOf(
  job: Schemas['JobDetail'],
  words: { last: (name: string) => string; size: string; sizeOf: (size: Schemas['Amounts']) => string },
) {
  const lines = new Map<string, string>();
  for (const metric of job.metrics)
    lines.set(
      words.last(metric.name),
      typeof metric.value === 'number' ? String(Number(metric.value.toPrecision(5))) : String(metric.value),
    );
  lines.set(words.size, words.sizeOf(job.per_node));
  return lines;
}
