import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { describe, expect, test } from 'vitest';

import { packed, unpacked } from './tar';

const FILES = [
  { path: 'train.py', text: 'print("안녕")\n' },
  { path: 'model/__init__.py', text: '' },
  { path: `${'deep/'.repeat(40)}한글-파일.py`, text: 'x = 1\n'.repeat(500) },
];
const bytesOf = (text: string) => new Uint8Array(Buffer.from(text));
const textsOf = (files: { path: string; bytes: Uint8Array }[]) =>
  files.map(({ path, bytes }) => ({ path, text: Buffer.from(bytes).toString() }));

describe('archives', () => {
  test('what is packed can be unpacked, whatever the length of a path', async () => {
    const archive = await packed(FILES.map(({ path, text }) => ({ path, bytes: bytesOf(text) })));
    expect(textsOf(await unpacked(archive))).toEqual(FILES);
  });

  test('tar reads ours, and we read those of tar', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'astrago-tar-'));
    try {
      const archive = await packed(FILES.map(({ path, text }) => ({ path, bytes: bytesOf(text) })));
      writeFileSync(join(folder, 'ours.tar.gz'), Buffer.from(await archive.arrayBuffer()));
      execFileSync('tar', ['-xzf', 'ours.tar.gz'], { cwd: folder });
      for (const { path, text } of FILES) expect(readFileSync(join(folder, path), 'utf8')).toBe(text);

      for (const format of ['gnu', 'pax', 'ustar']) {
        const paths = FILES.map(({ path }) => `./${path}`).filter(
          (path) => format !== 'ustar' || path.length < 100,
        );
        execFileSync('tar', [`--format=${format}`, '-czf', 'theirs.tar.gz', ...paths], { cwd: folder });
        const theirs = new Blob([readFileSync(join(folder, 'theirs.tar.gz'))]);
        expect(textsOf(await unpacked(theirs)), format).toEqual(FILES.slice(0, paths.length));
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
