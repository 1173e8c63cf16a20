// The example scripts of the runtimes are the templates of the form: one source for both.
import jax from '../../../../runtimes/jax-distributed/train.py?raw';
import pytorch from '../../../../runtimes/pytorch-simple/train.py?raw';
import tensorflow from '../../../../runtimes/tensorflow-distributed/train.py?raw';
import xgboost from '../../../../runtimes/xgboost-distributed/train.py?raw';

import type { Form, Framework } from './form';

const example = (code: string): Partial<Form> => ({
  code,
  codeSource: 'editor',
  multiNode: true,
  nodes: 2,
  preset: 'custom',
  gpu: 0,
  cpu: 0.5,
  cpuLimit: 1,
  memory: 1,
  memoryLimit: 2,
});

export const TEMPLATES: Partial<Record<Framework, Partial<Form>>> = {
  pytorch: example(pytorch),
  tensorflow: example(tensorflow),
  jax: example(jax),
  xgboost: example(xgboost),
};
