import { ignoring } from '@/libs/ignore';
import type { File as Packed } from '@/libs/tar';

/** Never code: what `astrago run FOLDER` leaves out as well, and what tools leave behind in large numbers. */
const NEVER = new Set([
  '.git',
  '.hg',
  '.svn',
  '__pycache__',
  '.ipynb_checkpoints',
  'node_modules',
  '.venv',
  'venv',
]);

const USUAL = ['train.py', 'main.py'];

/** As the server: larger ones belong into a volume. */
export const MOST_BYTES = 256 * 1024 * 1024;
export const MOST_FILES = 20_000;

interface Found {
  path: string;
  file: File;
}

/** The files of what was dropped: a folder, or some files. Paths are within the folder. */
export async function dropped(items: DataTransferItemList): Promise<Found[]> {
  const entries = [...items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [only] = entries;
  const within = entries.length === 1 && only?.isDirectory === true ? await children(only) : entries;
  return (await Promise.all(within.map((entry) => walk(entry, '')))).flat();
}

/** The files of a folder that was chosen, whose paths begin with its name. */
export function chosen(files: FileList): Found[] {
  return [...files].flatMap((file) => {
    const parts = file.webkitRelativePath.split('/').slice(1);
    return parts.some((part) => NEVER.has(part)) ? [] : [{ path: parts.join('/'), file }];
  });
}

/** Without what the folder's own `.gitignore` files name, as `astrago run FOLDER` does it. */
export async function wanted(found: Found[]): Promise<Found[]> {
  const files = found.filter(({ path }) => path.split('/').at(-1) === '.gitignore');
  const rules = await Promise.all(
    files.map(async ({ path, file }) => ({
      folder: path.split('/').slice(0, -1).join('/'),
      text: await file.text(),
    })),
  );
  const ignored = ignoring(rules);
  return found.filter(({ path }) => !ignored(path) && !path.endsWith('.pyc'));
}

export async function contents(found: Found[]): Promise<Packed[]> {
  return Promise.all(
    found.map(async ({ path, file }) => ({ path, bytes: new Uint8Array(await file.arrayBuffer()) })),
  );
}

/** Scripts to start, the usual ones first. */
export function entriesOf(paths: string[]): string[] {
  const order = (path: string) => (USUAL.includes(path) ? USUAL.indexOf(path) : USUAL.length);
  return paths
    .filter((path) => path.endsWith('.py') && !path.endsWith('__init__.py'))
    .toSorted(
      (a, b) => order(a) - order(b) || a.split('/').length - b.split('/').length || a.localeCompare(b),
    );
}

async function walk(entry: FileSystemEntry, before: string): Promise<Found[]> {
  if (NEVER.has(entry.name)) return [];
  const path = before + entry.name;
  if (entry.isDirectory) {
    const inside = await children(entry);
    return (await Promise.all(inside.map((one) => walk(one, `${path}/`)))).flat();
  }
  const file = await new Promise<File>((resolve, reject) =>
    (entry as FileSystemFileEntry).file(resolve, reject),
  );
  return [{ path, file }];
}

/** All of a folder: browsers hand it out in portions. */
async function children(entry: FileSystemEntry): Promise<FileSystemEntry[]> {
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return all;
    all.push(...some);
  }
}
