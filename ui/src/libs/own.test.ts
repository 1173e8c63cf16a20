import { describe, expect, it } from 'vitest';

import { withoutPassword, withoutSecrets } from './own';

describe('what is kept in the browser', () => {
  it.each([
    'HF_TOKEN',
    'WANDB_API_KEY',
    'AWS_SECRET_ACCESS_KEY',
    'db_password',
    'PGPASSWORD',
    'SSH_PRIVATE_KEY',
    'NPM_AUTH',
  ])('never has the value of %s', (name) => {
    expect(withoutSecrets([{ name, value: 'hush' }])).toEqual([{ name, value: '' }]);
  });

  it.each(['EPOCHS', 'MONKEYS', 'LEARNING_RATE'])('has the value of %s', (name) => {
    expect(withoutSecrets([{ name, value: '3' }])).toEqual([{ name, value: '3' }]);
  });

  it('has no password of a repository', () => {
    expect(withoutPassword('https://me:hush@host/a.git')).toBe('https://host/a.git');
    expect(withoutPassword('https://host/a@b.git')).toBe('https://host/a@b.git');
    expect(withoutPassword('git@host:a.git')).toBe('git@host:a.git');
  });
});
