import { describe, expect, it } from 'vitest';

import { en } from './en';
import { ko } from './ko';

function flat(tree: object, prefix = ''): [string, string][] {
  return Object.entries(tree).flatMap(([key, value]) =>
    typeof value === 'string'
      ? [[prefix + key, value] as [string, string]]
      : flat(value as object, `${prefix}${key}.`),
  );
}

const parameters = (text: string) => [...text.matchAll(/\{\{(\w+)\}\}/g)].map((match) => match[1]).sort();

/** What is the same in every language: names. */
const NAMES =
  /^(Astrago Trainer|Git|Kubernetes|YAML|CPU|GPU|MPI|MLX|Training Operator|PyTorch|TensorFlow|Horovod|JAX|XGBoost|DeepSpeed|\{\{[^}]*\}\}.*)$/;

describe('the two languages', () => {
  it('have the same keys', () => {
    expect(
      flat(ko)
        .map(([key]) => key)
        .sort(),
    ).toEqual(
      flat(en)
        .map(([key]) => key)
        .sort(),
    );
  });

  it('use the same parameters', () => {
    const korean = new Map(flat(ko));
    const wrong = flat(en).filter(([key, text]) => {
      const own = parameters(korean.get(key) ?? '');
      // A language may leave out a number that its grammar does not need, but never invents one.
      return own.some((name) => !parameters(text).includes(name)) && !key.startsWith('logs.foundFirst');
    });
    expect(wrong).toEqual([]);
  });

  it('are both complete: no Korean text is English', () => {
    const latin = flat(ko).filter(([, text]) => !/[가-힣]/.test(text) && !NAMES.test(text));
    expect(latin).toEqual([]);
  });

  it('leave no particle for the reader to choose', () => {
    expect(
      flat(ko).filter(([, text]) => /이\(가\)|[은을]\([는를]\)|\(으\)로|[와과]\([과와]\)/.test(text)),
    ).toEqual([]);
  });
});
