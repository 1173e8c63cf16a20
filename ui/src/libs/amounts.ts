/** Amounts of memory and cores as people write them. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(value: number): string {
  let amount = value;
  let unit = 0;
  while (amount >= 1024 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit++;
  }
  return `${Number.isInteger(amount) ? amount : amount.toFixed(1)} ${UNITS[unit] ?? ''}`;
}

const SUFFIXES: Record<string, number> = {
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** A quantity of Kubernetes as people write it: `1600m` of a CPU are 1.6, `16000Mi` are 15.6 GiB. */
export function quantity(text: string): string {
  const [, number = '', suffix = ''] = /^(\d+)(m|[kMGT]i?|Ki)$/.exec(text) ?? [];
  const factor = SUFFIXES[suffix];
  if (suffix === 'm') return cores(Number(number) / 1000);
  return factor === undefined ? text : bytes(Number(number) * factor);
}

export function cores(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2).replace(/0+$/, '').replace(/\.$/, '');
}

/** `4 CPU · 16 GiB · 1 GPU`: what there is nothing of is left out, and of nothing at all there is no word. */
export function amounts(value: { cpu: number; memory: number; gpu: number }): string {
  const parts = [
    value.cpu > 0 && `${cores(value.cpu)} CPU`,
    value.memory > 0 && bytes(value.memory),
    value.gpu > 0 && `${value.gpu} GPU`,
  ];
  return parts.filter((part) => part !== false).join(' · ');
}
