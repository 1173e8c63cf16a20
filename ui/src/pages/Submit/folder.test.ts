import { expect, test } from 'vitest';

import { entriesOf } from './folder';

test('scripts to start: the usual ones first, then those nearest to the top', () => {
  expect(
    entriesOf(['lib/deep/x.py', 'b.py', 'main.py', 'lib/__init__.py', 'data.csv', 'train.py', 'a.py']),
  ).toEqual(['train.py', 'main.py', 'a.py', 'b.py', 'lib/deep/x.py']);
});
