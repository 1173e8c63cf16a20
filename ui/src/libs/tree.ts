/** Files by their paths as a tree of folders, folders first. */
export interface Folder {
  name: string;
  path: string;
  folders: Folder[];
  files: { name: string; path: string }[];
}

export function folderOf(files: { path: string }[]): Folder {
  const root: Folder = { name: '', path: '', folders: [], files: [] };
  for (const { path } of files) {
    const parts = path.split('/');
    const name = parts.pop() ?? '';
    let at = root;
    for (const part of parts) {
      let next = at.folders.find((one) => one.name === part);
      if (next === undefined) {
        next = { name: part, path: at.path === '' ? part : `${at.path}/${part}`, folders: [], files: [] };
        at.folders.push(next);
      }
      at = next;
    }
    at.files.push({ name, path });
  }
  return root;
}

/** Whether a file is one to read: no byte of nothing at its start, as git tells it. */
export function isText(bytes: Uint8Array): boolean {
  return !bytes.subarray(0, 8000).includes(0);
}
