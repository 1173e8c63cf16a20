/** A number in the address, counted from `least`; nothing where somebody typed something else. */
export function numberIn(search: URLSearchParams, key: string, least = 1): number | undefined {
  const text = search.get(key) ?? '';
  const number = Number(text);
  return /^\d{1,9}$/.test(text) && number >= least ? number : undefined;
}
