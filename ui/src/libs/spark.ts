/** The line through values that are equally far apart, from the left edge to the right and from the least to the greatest. */
export function pathOf(values: number[], width: number, height: number): string {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  // So that a line of its own width is not cut off.
  const room = height - 2;
  const at = (value: number, index: number) => {
    const x = (index / (values.length - 1)) * width;
    const y = 1 + (high === low ? room / 2 : ((high - value) / (high - low)) * room);
    return `${Number(x.toFixed(1))} ${Number(y.toFixed(1))}`;
  };
  return `M${values.map(at).join('L')}`;
}
