/** One object of a stream of YAML documents, by its kind; objects of the same kind are counted. */
export interface Document {
  kind: string;
  text: string;
}

export function documentsOf(yaml: string): Document[] {
  const seen = new Map<string, number>();
  return yaml
    .split(/^---\n/m)
    .filter((text) => text.trim() !== '')
    .map((text) => {
      const kind = /^kind: *(.+)$/m.exec(text)?.[1] ?? '?';
      const count = (seen.get(kind) ?? 0) + 1;
      seen.set(kind, count);
      return { kind: count === 1 ? kind : `${kind} ${count}`, text };
    });
}
