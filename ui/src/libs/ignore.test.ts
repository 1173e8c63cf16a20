import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { expect, test } from 'vitest';

import { ignoring } from './ignore';

const RULES = {
  '': 'data/\n*.log\n!keep.log\n/build\ndocs/*.txt\n**/tmp\nruns/**\n# a comment\nweird\\ name \n[ab].bin\nfile?.dat\n',
  pkg: '/secret.py\n!*.log\n',
};
const PATHS = [
  'train.py',
  'data/big.bin',
  'pkg/data/big.bin',
  'a.log',
  'keep.log',
  'deep/er/b.log',
  'build/x',
  'pkg/build/x',
  'docs/a.txt',
  'docs/sub/a.txt',
  'pkg/tmp/x',
  'tmp/y',
  'runs/1/events',
  'pkg/secret.py',
  'pkg/sub/secret.py',
  'pkg/c.log',
  'weird name',
  'a.bin',
  'c.bin',
  'file1.dat',
  'file12.dat',
];

test('leaves out what git leaves out', () => {
  const folder = mkdtempSync(join(tmpdir(), 'astrago-ignore-'));
  try {
    execFileSync('git', ['init', '-q', folder]);
    for (const [place, text] of Object.entries(RULES)) {
      mkdirSync(join(folder, place), { recursive: true });
      writeFileSync(join(folder, place, '.gitignore'), text);
    }
    for (const path of PATHS) {
      mkdirSync(join(folder, dirname(path)), { recursive: true });
      writeFileSync(join(folder, path), '');
    }
    const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], { cwd: folder });
    const kept = new Set(listed.toString().split('\0'));
    const ignored = ignoring(Object.entries(RULES).map(([place, text]) => ({ folder: place, text })));
    expect(PATHS.filter((path) => !ignored(path))).toEqual(PATHS.filter((path) => kept.has(path)));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
