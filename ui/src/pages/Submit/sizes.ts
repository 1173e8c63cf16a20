import type { Schemas } from '@/services/client';

/** What one node of a job asks for; memory in GiB. */
export interface Size {
  gpu: number;
  cpu: number;
  memory: number;
}

export const PRESETS = ['small', 'medium', 'large'] as const;
export type Preset = (typeof PRESETS)[number];

/** Where nothing is known of the machines yet. */
const UNKNOWN: Size = { gpu: 4, cpu: 16, memory: 64 };

/** The most that one node can ask for: the largest machine. */
export function largest(machines: Schemas['NodeInfo'][] | undefined): Size {
  const all = (machines ?? []).map((one) => one.capacity);
  if (all.length === 0) return UNKNOWN;
  const most = (read: (one: Schemas['Amounts']) => number) => Math.max(...all.map(read));
  return {
    gpu: most((one) => one.gpu),
    cpu: most((one) => one.cpu),
    memory: most((one) => one.memory / 2 ** 30),
  };
}

/**
 * Sizes for each node: large is all that they can have when the cluster is empty, medium a half and small a
 * quarter of it.
 */
export function presetsOf(machines: Schemas['NodeInfo'][] | undefined, nodes: number): Record<Preset, Size> {
  const most = largest(machines);
  const together = Math.max(1, Math.ceil(nodes / Math.max(1, machines?.length ?? nodes)));
  const part = (fraction: number): Size => ({
    gpu: most.gpu === 0 ? 0 : Math.max(1, Math.floor((most.gpu * fraction) / together)),
    cpu: down((most.cpu * fraction) / together),
    memory: down((most.memory * fraction) / together),
  });
  return { small: part(0.25), medium: part(0.5), large: part(1) };
}

/** Down to whole numbers, below 4 to halves, below 1 to what is left of a quarter. */
function down(value: number): number {
  const step = value >= 4 ? 1 : value >= 1 ? 0.5 : 0.125;
  return Math.max(0.125, Math.floor(value / step) * step);
}

/** A slider has about a hundred places, at sizes that people would type. */
export function stepOf(most: number): number {
  return most > 32 ? 1 : most > 8 ? 0.5 : 0.25;
}
