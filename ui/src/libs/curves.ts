/**
 * An exponential moving average without the bias towards its start: the usual smoothing of training curves.
 * A weight of 0 changes nothing.
 */
export function smoothed(values: number[], weight: number): number[] {
  if (weight <= 0) return values;
  let average = 0;
  let norm = 0;
  return values.map((value) => {
    // One bad value would spoil all that follow.
    if (!Number.isFinite(value)) return value;
    average = average * weight + (1 - weight) * value;
    norm = norm * weight + (1 - weight);
    return average / norm;
  });
}

/** A number short enough for an axis: `0.25`, `1.2k`, `3M`, `1e-5`. */
export function shortened(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.001) return value.toExponential(0).replace('e-0', 'e-');
  for (const [scale, unit] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    if (size >= scale) return `${Number((value / scale).toPrecision(4))}${unit}`;
  }
  return String(Number(value.toPrecision(4)));
}
