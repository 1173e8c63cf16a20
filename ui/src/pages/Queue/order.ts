import type { Schemas } from '@/services/client';

/** What no job that ends can mend: more than there is, or asked of machines that there are not. */
const FINAL = [
  'too_big',
  'too_much',
  'not_together',
  'no_node_selected',
  'no_node_affine',
  'tainted',
  'over_quota',
];

export function isHopeless(cause: { code: string } | undefined): boolean {
  return cause !== undefined && FINAL.includes(cause.code);
}

/** Those that will run, numbered as they will, and after them those that cannot run as the cluster is. */
export function inOrder(items: Schemas['QueueEntry'][]): Schemas['QueueEntry'][] {
  const hopeless = items.filter((one) => isHopeless(one.cause));
  const before = (entry: Schemas['QueueEntry']) =>
    hopeless.filter((one) => one.position < entry.position).length;
  return [
    ...items
      .filter((one) => !isHopeless(one.cause))
      .map((one) => ({ ...one, position: one.position - before(one) })),
    ...hopeless,
  ];
}
