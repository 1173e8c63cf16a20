/** Tar archives compressed with gzip, as the server takes and gives folders of code. Plain files only. */
export interface File {
  path: string;
  bytes: Uint8Array<ArrayBuffer>;
}

const BLOCK = 512;

export async function packed(files: File[]): Promise<Blob> {
  const parts = files.flatMap(({ path, bytes }) => [
    ...headers(path, bytes.length),
    bytes,
    new Uint8Array(padding(bytes.length)),
  ]);
  // Two empty blocks are the end of an archive.
  const archive = new Blob([...parts, new Uint8Array(2 * BLOCK)]);
  const stream = archive.stream().pipeThrough(new CompressionStream('gzip'));
  return new Response(stream).blob();
}

export async function unpacked(archive: Blob): Promise<File[]> {
  const stream = archive.stream().pipeThrough(new DecompressionStream('gzip'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const files: File[] = [];
  let longer: string | undefined;
  for (let at = 0; at + BLOCK <= bytes.length && bytes[at] !== 0;) {
    const header = bytes.subarray(at, at + BLOCK);
    const size = Number.parseInt(text(header, 124, 12).trim(), 8) || 0;
    const content = bytes.slice(at + BLOCK, at + BLOCK + size);
    at += BLOCK + size + padding(size);
    switch (text(header, 156, 1)) {
      case 'x':
        longer = pathOf(content) ?? longer;
        break;
      case 'L':
        longer = text(content, 0, content.length);
        break;
      case '0':
      case '': {
        const prefix = text(header, 345, 155);
        const name = text(header, 0, 100);
        files.push({ path: longer ?? (prefix === '' ? name : `${prefix}/${name}`), bytes: content });
        longer = undefined;
        break;
      }
      default:
        longer = undefined;
    }
  }
  return files.map((file) => ({ ...file, path: file.path.replace(/^(\.\/)+/, '') }));
}

/** The header of a file; a name that does not fit into it goes into an extended header before it. */
function headers(path: string, size: number): Uint8Array<ArrayBuffer>[] {
  const name = new TextEncoder().encode(path);
  if (name.length <= 100) return [header(name, size, '0')];
  const record = recordOf(path);
  const short = name.slice(0, 100);
  return [
    header(new TextEncoder().encode('PaxHeader'), record.length, 'x'),
    record,
    new Uint8Array(padding(record.length)),
    header(short, size, '0'),
  ];
}

function header(name: Uint8Array, size: number, type: string): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const write = (at: number, value: string) => block.set(new TextEncoder().encode(value), at);
  block.set(name);
  write(100, '0000644\0');
  write(108, '0000000\0');
  write(116, '0000000\0');
  write(124, `${size.toString(8).padStart(11, '0')}\0`);
  write(136, '00000000000\0');
  // The sum is made as if its own field were spaces.
  write(148, '        ');
  write(156, type);
  write(257, 'ustar\u000000');
  const sum = block.reduce((before, byte) => before + byte, 0);
  write(148, `${sum.toString(8).padStart(6, '0')}\0 `);
  return block;
}

/** `LENGTH path=VALUE`, where the length counts itself. */
function recordOf(path: string): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(` path=${path}\n`).length;
  let length = body;
  while (String(length).length + body !== length) length = String(length).length + body;
  return new TextEncoder().encode(`${length} path=${path}\n`);
}

function pathOf(records: Uint8Array): string | undefined {
  return /^\d+ path=(.*)$/m.exec(new TextDecoder().decode(records))?.[1];
}

function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

/** Text up to its field's end or the first zero. */
function text(bytes: Uint8Array, at: number, length: number): string {
  const field = bytes.subarray(at, at + length);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}
