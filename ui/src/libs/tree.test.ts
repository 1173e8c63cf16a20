import { describe, expect, it } from 'vitest';

import { folderOf, isText } from './tree';

describe('a tree of files', () => {
  it('has folders within folders, each once', () => {
    const root = folderOf([
      { path: 'a/b/one.py' },
      { path: 'a/b/two.py' },
      { path: 'a/three.py' },
      { path: 'train.py' },
    ]);
    expect(root.files).toEqual([{ name: 'train.py', path: 'train.py' }]);
    expect(root.folders.map((one) => one.path)).toEqual(['a']);
    expect(root.folders[0]?.files).toEqual([{ name: 'three.py', path: 'a/three.py' }]);
    expect(root.folders[0]?.folders[0]).toMatchObject({
      path: 'a/b',
      files: [
        { name: 'one.py', path: 'a/b/one.py' },
        { name: 'two.py', path: 'a/b/two.py' },
      ],
    });
  });

  it('tells text from what is none', () => {
    expect(isText(new TextEncoder().encode('# 한글\n'))).toBe(true);
    expect(isText(new Uint8Array([137, 80, 0, 71]))).toBe(false);
  });
});
