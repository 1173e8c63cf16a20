/**
 * An exponential moving average without the bias towards its start: the usual smoothing of training curves.
 * A weight of 0 changes nothing.
 */
export function smoothed(values: number[], weight: number): number[] {
  if (weight <= 0) return values;
  let average = 0;
  let norm = 0;
  return values.map((value) => {
    average = average * weight + (1 - weight) * value;
    norm = norm * weight + (1 - weight);
    return average / norm;
  });
}
