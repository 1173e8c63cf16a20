/** What `.gitignore` files name, as git reads them. */
export interface Rules {
  /** The folder of the file, without a slash at its end; empty for the top. */
  folder: string;
  text: string;
}

interface Rule {
  folder: string;
  pattern: RegExp;
  folders: boolean;
  keeps: boolean;
}

/** Says of a path whether it is left out: itself, or a folder that it is in. */
export function ignoring(files: Rules[]): (path: string) => boolean {
  // Rules further down count more than those above.
  const rules = files
    .toSorted((a, b) => depth(a.folder) - depth(b.folder))
    .flatMap(({ folder, text }) => text.split('\n').flatMap((line) => ruleOf(folder, line) ?? []));
  const matches = (path: string, isFolder: boolean) => {
    let out = false;
    for (const rule of rules) {
      if (rule.folders && !isFolder) continue;
      if (rule.folder !== '' && !path.startsWith(`${rule.folder}/`)) continue;
      const within = rule.folder === '' ? path : path.slice(rule.folder.length + 1);
      if (rule.pattern.test(within)) out = !rule.keeps;
    }
    return out;
  };
  return (path) => {
    const parts = path.split('/');
    return parts.some((_, index) => matches(parts.slice(0, index + 1).join('/'), index < parts.length - 1));
  };
}

function depth(folder: string): number {
  return folder === '' ? 0 : folder.split('/').length;
}

function ruleOf(folder: string, line: string): Rule | undefined {
  let text = line.replace(/\r$/, '').replace(/(?<!\\)\s+$/, '');
  if (text === '' || text.startsWith('#')) return undefined;
  const keeps = text.startsWith('!');
  if (keeps) text = text.slice(1);
  const folders = text.endsWith('/');
  if (folders) text = text.slice(0, -1);
  // With a slash in it, it counts from its own folder; otherwise it may be anywhere below.
  const anchored = text.includes('/');
  const body = patternOf(text.replace(/^\//, ''));
  return { folder, pattern: new RegExp(`^${anchored ? '' : '(?:.*/)?'}${body}$`), folders, keeps };
}

function patternOf(glob: string): string {
  return glob.replace(/\*\*\/|\/\*\*$|\*|\?|\\(.)|\[!?[^\]]+\]|[.+^${}()|[\]]/g, (part, escaped?: string) => {
    if (part === '**/') return '(?:.*/)?';
    if (part === '/**') return '/.*';
    if (part === '*') return '[^/]*';
    if (part === '?') return '[^/]';
    if (escaped !== undefined) return escaped.replace(/[^\w]/, '\\$&');
    if (part.startsWith('[') && part.length > 1) return part.replace('[!', '[^');
    return `\\${part}`;
  });
}
