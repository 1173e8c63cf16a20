import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';

import { expect, job, signIn, test } from './fixtures';

const FOLDER = process.env['SCREENSHOTS'] ?? resolve('../docs/screenshots');

/** Prints what a training loop of several epochs prints. */
function training(epochs: number, seconds: number): string {
  return [
    'import math, random, time',
    `for epoch in range(1, ${epochs + 1}):`,
    '    for batch in range(0, 20):',
    '        x = (epoch - 1) * 20 + batch',
    '        loss = 2.3 * math.exp(-x / 40) + random.random() * 0.15',
    `        print(f"Epoch {epoch}/${epochs}, Batch {batch}/20, Loss: {loss:.4f}, Accuracy: {1 - loss / 2.6:.4f}", flush=True)`,
    `        time.sleep(${seconds})`,
    '',
  ].join('\n');
}

/** Some jobs of every kind, so that the pages have something to show. */
test.beforeAll(async ({ server }) => {
  mkdirSync(FOLDER, { recursive: true });
  const create = (name: string, code: string, more = {}) =>
    server.call('POST', '/api/trainjob/create', job(name, code, more));
  await create('mnist-baseline', training(5, 0.02), { num_nodes: 2 });
  await create('bert-tokenizer', 'import tokenizers_of_mine\n', { max_restarts: 0 });
  await create('resnet-sweep', training(20, 0.5), { num_nodes: 2 });
  await create('horovod-digits', training(12, 0.5), {
    framework: 'horovod',
    command: 'python3 /workspace/scripts/train.py',
    launcher_cpu: '0.1',
    launcher_memory: '64Mi',
  });
  await create('llama-large', training(1, 0.1), { num_nodes: 4, cpu_request: '16', cpu_limit: '16' });
  const states = async () => {
    const { items } = await server.call<{ items: { name: string; state: string }[] }>(
      'GET',
      '/api/trainjobs',
    );
    return Object.fromEntries(items.map((item) => [item.name, item.state]));
  };
  await expect
    .poll(states, { timeout: 60_000 })
    .toMatchObject({ 'mnist-baseline': 'Complete', 'bert-tokenizer': 'Failed', 'resnet-sweep': 'Running' });
});

for (const language of ['en', 'ko'] as const) {
  for (const scheme of ['light', 'dark'] as const) {
    test.describe(`${language} ${scheme}`, () => {
      test.use({ colorScheme: scheme, locale: language, viewport: { width: 1280, height: 800 } });

      test('every page', async ({ page, server }) => {
        test.setTimeout(120_000);
        const shot = (name: string) =>
          page.screenshot({ path: `${FOLDER}/${name}-${language}-${scheme}.png`, animations: 'disabled' });
        await page.goto('/');
        await expect(page.locator('form')).toBeVisible();
        await shot('login');
        await signIn(page, server.token);

        await page.goto('/jobs');
        await expect(page.locator('[data-job=resnet-sweep]')).toBeVisible();
        await shot('jobs');

        await page.goto('/submit');
        const title = page.getByRole('heading', { level: 2 });
        await expect(title).toBeVisible();
        await page.locator('[data-templates]').click();
        await page.getByRole('menuitem').first().click();
        await expect(page.locator('[data-fit]')).toBeVisible();
        await expect(page.locator('.cm-content').nth(1)).toContainText('apiVersion');
        await shot('submit');
        await page.screenshot({
          path: `${FOLDER}/submit-whole-${language}-${scheme}.png`,
          animations: 'disabled',
          fullPage: true,
        });

        const detail = async (name: string, tab: string, seen: string) => {
          await page.goto(`/jobs/default/${name}${tab && `/${tab}`}`);
          await expect(page.locator(`${seen} >> visible=true`).first()).toBeVisible();
          await shot(`job-${tab || 'overview'}-${name}`);
        };
        await detail('resnet-sweep', '', '[data-worker]');
        await detail('resnet-sweep', 'logs', '[role=log] [data-index]');
        await detail('mnist-baseline', 'metrics', '[data-metric] canvas');
        await detail('mnist-baseline', 'events', 'tbody tr');
        await detail('mnist-baseline', 'manifest', '.cm-line');
        await detail('mnist-baseline', 'preview', '.cm-line');
        await detail('bert-tokenizer', '', '[data-worker]');
        await detail('llama-large', '', '[role=alert]');

        for (const [name, seen] of [
          ['nodes', 'tbody tr'],
          ['queue', 'h2'],
          ['runtimes', '[data-runtime]'],
          ['settings', 'h2'],
        ] as const) {
          await page.goto(`/${name}`);
          await expect(page.locator(`${seen} >> visible=true`).first()).toBeVisible();
          await expect(page.locator('.mantine-Loader-root')).toHaveCount(0);
          await shot(name);
        }
        await page.setViewportSize({ width: 390, height: 844 });
        for (const [name, path] of [
          ['phone-jobs', '/jobs'],
          ['phone-submit', '/submit'],
          ['phone-job', '/jobs/default/resnet-sweep'],
          ['phone-logs', '/jobs/default/resnet-sweep/logs'],
        ] as const) {
          await page.goto(path);
          await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
          await expect(page.locator('.mantine-Loader-root')).toHaveCount(0);
          await shot(name);
        }
      });
    });
  }
}
