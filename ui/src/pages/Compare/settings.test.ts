import { expect, it } from 'vitest';

import type { Schemas } from '@/services/client';

import { rowsOf, settingsOf } from './settings';

const form = (more: Partial<Schemas['CreateRequest']>) =>
  settingsOf({ user_id: 'me', namespace: 'default', framework: 'pytorch', ...more });

it('marks the settings in which jobs differ, a missing one among them', () => {
  const rows = rowsOf([
    form({ name: 'a', num_nodes: 2, env_vars: [{ name: 'LR', value: '0.1' }] }),
    form({ name: 'b', num_nodes: 2, env_vars: [{ name: 'LR', value: '0.2' }], max_restarts: 3 }),
  ]);
  expect(rows).toEqual([
    { name: 'framework', values: ['pytorch', 'pytorch'], differs: false },
    { name: 'num_nodes', values: ['2', '2'], differs: false },
    { name: '$LR', values: ['0.1', '0.2'], differs: true },
    { name: 'max_restarts', values: [undefined, '3'], differs: true },
  ]);
});

it('shows no value that looks like a secret', () => {
  const lines = form({ env_vars: [{ name: 'HF_TOKEN', value: 'hush' }] });
  expect([...lines.values()]).not.toContain('hush');
});

it('writes amounts in the units of the page', () => {
  const lines = form({ memory_request: '64Mi', cpu_limit: '500m', command: 'sleep 16Gi' });
  expect(['memory_request', 'cpu_limit', 'command'].map((name) => lines.get(name))).toEqual([
    '64 MiB',
    '0.5',
    'sleep 16Gi',
  ]);
});
