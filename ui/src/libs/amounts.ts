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

export function cores(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(2).replace(/0+$/, '').replace(/\.$/, '');
}

/** `4 CPU · 16 GiB · 1 GPU`; GPUs only where there are some. */
export function amounts(value: { cpu: number; memory: number; gpu: number }): string {
  const parts = [`${cores(value.cpu)} CPU`, bytes(value.memory)];
  if (value.gpu > 0) parts.push(`${value.gpu} GPU`);
  return parts.join(' · ');
}
