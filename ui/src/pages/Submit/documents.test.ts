import { expect, it } from 'vitest';

import { documentsOf } from './documents';

it('tells the objects of a stream apart, and those of the same kind by number', () => {
  const yaml =
    'kind: ConfigMap\na: 1\n---\nkind: ConfigMap\n---\nkind: TrainJob\nspec:\n  text: |\n    ---x\n';
  expect(documentsOf(yaml).map((one) => one.kind)).toEqual(['ConfigMap', 'ConfigMap 2', 'TrainJob']);
  expect(documentsOf(yaml)[2]?.text).toContain('---x');
  expect(documentsOf('')).toEqual([]);
});
