import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';

import { expect, job, signIn, test } from './fixtures';

const FOLDER = process.env['SCREENSHOTS'] ?? resolve('../docs/screenshots');

/** To look at every page as wide as screens are: `WIDTHS=1440,1024,390 SCREENSHOTS=/tmp/looks npm run screenshots`. */
const WIDTHS = (process.env['WIDTHS'] ?? '').split(',').filter(Boolean).map(Number);
const ALL = [
  ['jobs', '/jobs'],
  ['jobs-groups', '/jobs?group=user'],
  ['jobs-none', '/jobs?q=no-such-job'],
  ['submit', '/submit'],
  ['queue', '/queue'],
  ['nodes', '/nodes'],
  ['runtimes', '/runtimes'],
  ['runtime', '/runtimes/pytorch-simple'],
  ['settings', '/settings'],
  ['job', '/jobs/default/resnet-sweep'],
  ['job-failed', '/jobs/user-minji/bert-tokenizer'],
  ['job-waiting', '/jobs/user-jun/llama-large'],
  ['job-logs', '/jobs/default/mnist-baseline/logs'],
  ['job-metrics', '/jobs/default/mnist-baseline/metrics'],
  ['job-events', '/jobs/default/mnist-baseline/events'],
  ['job-code', '/jobs/default/mnist-baseline/code'],
  ['job-advanced', '/jobs/default/mnist-baseline/advanced'],
  ['compare', '/compare?job=default/mnist-baseline&job=default/resnet-sweep'],
  ['missing', '/jobs/default/no-such-job'],
] as const;

/** Prints what a training loop of several epochs prints: those up to `fast` at once, so that there is something to see. */
function training(epochs: number, seconds: number, fast = 0): string {
  return [
    'import math, os, random, time',
    'rank = int(os.environ.get("RANK", "0"))',
    'random.seed(rank)',
    `for epoch in range(1, ${epochs + 1}):`,
    '    for batch in range(0, 20):',
    '        x = (epoch - 1) * 20 + batch',
    '        loss = 2.3 * math.exp(-x / 160) + 0.12 + random.random() * 0.08',
    `        print(f"Epoch {epoch}/${epochs}, Batch {batch}/20, Loss: {loss:.4f}, Accuracy: {1 - loss / 2.6:.4f}", flush=True)`,
    `        time.sleep(${seconds} if epoch > ${fast} else 0.002)`,
    '',
  ].join('\n');
}

/** Some jobs of every kind and of several people, so that the pages have something to show. */
test.beforeAll(async ({ server }) => {
  test.setTimeout(180_000);
  mkdirSync(FOLDER, { recursive: true });
  const tokens = new Map<string, string>();
  for (const name of ['minji', 'jun']) {
    const made = await server.call<{ token: string }>('POST', '/api/users', { name });
    tokens.set(name, made.token);
  }
  const create = (name: string, code: string, more: Record<string, unknown> = {}, user?: string) =>
    server.call(
      'POST',
      '/api/trainjob/create',
      job(name, code, { ...more, ...(user !== undefined && { user_id: user, namespace: `user-${user}` }) }),
      user === undefined ? undefined : tokens.get(user),
    );
  await create('mnist-baseline', training(40, 0), { num_nodes: 2 });
  await create('bert-tokenizer', 'import tokenizers_of_mine\n', { max_restarts: 0 }, 'minji');
  await create('digits-ablation', training(12, 0), {}, 'jun');
  await create('resnet-sweep', training(80, 0.25, 30), { num_nodes: 2 });
  await create('segmentation-v2', training(60, 0.4, 12), { num_nodes: 2, cpu_request: '0.2' }, 'minji');
  await create('horovod-digits', training(120, 0.3, 50), {
    framework: 'horovod',
    suspend: true,
    launcher_cpu: '0.1',
    launcher_memory: '64Mi',
  });
  await create('llama-large', training(1, 0.1), { num_nodes: 4, cpu_request: '16', cpu_limit: '16' }, 'jun');
  const states = async () => {
    const { items } = await server.call<{ items: { name: string; state: string; progress?: object }[] }>(
      'GET',
      '/api/trainjobs',
    );
    return Object.fromEntries(items.map((item) => [item.name, [item.state, item.progress != null]]));
  };
  await expect.poll(states, { timeout: 90_000 }).toMatchObject({
    'mnist-baseline': ['Complete', true],
    'bert-tokenizer': ['Failed', false],
    'digits-ablation': ['Complete', true],
    'resnet-sweep': ['Running', true],
    'segmentation-v2': ['Running', true],
    'horovod-digits': ['Suspended', false],
  });
});

for (const language of ['en', 'ko'] as const) {
  for (const scheme of ['light', 'dark'] as const) {
    test.describe(`${language} ${scheme}`, () => {
      test.use({ colorScheme: scheme, locale: language, viewport: { width: 1280, height: 800 } });

      test('every page', async ({ page, server }) => {
        test.setTimeout(300_000);
        const shot = (name: string) =>
          page.screenshot({ path: `${FOLDER}/${name}-${language}-${scheme}.png`, animations: 'disabled' });
        await page.goto('/');
        await expect(page.locator('form')).toBeVisible();
        await shot('login');
        await signIn(page, server.token);

        await page.goto('/jobs');
        await expect(page.locator('[data-job=resnet-sweep]')).toBeVisible();
        await shot('jobs');

        await page.keyboard.press('Control+k');
        await expect(page.getByRole('dialog').locator('[data-state]').first()).toBeVisible();
        await shot('palette');
        await page.goto('/submit');
        const title = page.getByRole('heading', { level: 2 });
        await expect(title).toBeVisible();
        await page.locator('[data-templates]').click();
        await page.getByRole('menuitem').first().click();
        await expect(page.locator('[data-fit]')).toBeVisible();
        await page.locator('button[aria-expanded=false]').filter({ hasText: 'YAML' }).click();
        await expect(page.locator('.cm-content').nth(1)).toContainText('apiVersion');
        await shot('submit');
        // What sticks to the edge of the window would lie over the middle of a picture of the whole page.
        await page.setViewportSize({ width: 1280, height: 2000 });
        await shot('submit-whole');
        await page.setViewportSize({ width: 1280, height: 800 });

        const detail = async (name: string, tab: string, seen: string, namespace = 'default') => {
          await page.goto(`/jobs/${namespace}/${name}${tab && `/${tab}`}`);
          await expect(page.locator(`${seen} >> visible=true`).first()).toBeVisible();
          await expect(page.locator('.mantine-Loader-root, .mantine-Skeleton-root')).toHaveCount(0);
          await shot(`job-${tab || 'overview'}-${name}`);
        };
        await detail('resnet-sweep', '', '[data-worker]');
        await detail('resnet-sweep', 'logs', '[role=log] [data-index]');
        await detail('mnist-baseline', 'metrics', '[data-metric] canvas');
        await detail('mnist-baseline', 'events', 'tbody tr');
        await detail('mnist-baseline', 'advanced', '.cm-line');
        await detail('mnist-baseline', 'code', '.cm-line');
        await detail('bert-tokenizer', '', '[data-worker]', 'user-minji');
        await detail('llama-large', '', '[role=alert]', 'user-jun');

        for (const [name, seen] of [
          ['nodes', 'tbody tr'],
          ['queue', 'h2'],
          ['runtimes', '[data-runtime]'],
          ['settings', 'h2'],
        ] as const) {
          await page.goto(`/${name}`);
          await expect(page.locator(`${seen} >> visible=true`).first()).toBeVisible();
          await expect(page.locator('.mantine-Loader-root, .mantine-Skeleton-root')).toHaveCount(0);
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
          await expect(page.locator('.mantine-Loader-root, .mantine-Skeleton-root')).toHaveCount(0);
          await shot(name);
        }
      });

      test('every page at every width', async ({ page, server }) => {
        test.skip(WIDTHS.length === 0, 'WIDTHS says which, such as 1440,1024,390');
        test.setTimeout(600_000);
        await signIn(page, server.token);
        const [machine] = await server.call<{ name: string }[]>('GET', '/api/nodes');
        for (const [name, path] of [...ALL, ['machine', `/nodes/${machine?.name}`] as const]) {
          await page.goto(path);
          await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
          await expect(page.locator('.mantine-Loader-root, .mantine-Skeleton-root')).toHaveCount(0);
          for (const width of WIDTHS) {
            await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
            await page.evaluate(
              () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
            );
            // What sticks to the edge of the window would lie over the middle of a picture of the whole page.
            const height = await page.evaluate(() => document.documentElement.scrollHeight);
            await page.setViewportSize({ width, height });
            const file = `${FOLDER}/${name}-${width}-${language}-${scheme}.png`;
            await page.screenshot({ path: file, animations: 'disabled' });
          }
        }
      });
    });
  }
}
