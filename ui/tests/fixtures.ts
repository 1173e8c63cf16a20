import AxeBuilder from '@axe-core/playwright';
import { expect, type Page, test as base } from '@playwright/test';

import { Server } from './server';

interface WorkerFixtures {
  server: Server;
}

interface Fixtures {
  /** The page, signed in as the administrator. */
  app: Page;
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  server: [
    async ({}, use) => {
      const server = new Server();
      await server.start();
      await use(server);
      await server.dispose();
    },
    { scope: 'worker', timeout: 60_000 },
  ],

  baseURL: async ({ server }, use) => use(server.origin),

  page: async ({ page }, use) => {
    const problems = watched(page);
    await use(page);
    expect(problems, 'the page wrote errors to the console').toEqual([]);
  },

  app: async ({ page, server }, use) => {
    await signIn(page, server.token);
    await use(page);
  },
});

export { expect };

/** The errors of a page. The browser's own notes on requests that the server refused are none: the page shows those to its user. */
export function watched(page: Page): string[] {
  const problems: string[] = [];
  page.on('console', (message) => {
    const refused = /^Failed to load resource: the server responded with a status of 4/.test(message.text());
    if (message.type() === 'error' && !refused) problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  return problems;
}

export async function signIn(page: Page, token: string): Promise<void> {
  const answer = await page.request.post('/api/session', { data: { token } });
  expect(answer.ok(), await answer.text()).toBe(true);
}

/** No violation of WCAG 2.2 A and AA, nor of axe's best practices. */
export async function expectAccessible(page: Page): Promise<void> {
  // What fades in has less contrast until it is there.
  await page.evaluate(() =>
    Promise.all(document.getAnimations().map((animation) => animation.finished.catch(() => undefined))),
  );
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(
    violations.map(({ id, nodes }) => ({
      id,
      nodes: nodes.map((node) => `${node.html}\n${node.failureSummary ?? ''}`),
    })),
  ).toEqual([]);
}

/** Training that needs no framework: prints what a training loop prints, a little slower than one can look. */
export function script(batches: number, seconds = 0.2): string {
  return [
    'import time',
    `for batch in range(${batches}):`,
    `    print(f"Epoch 1, Batch {batch}/${batches}, Loss: {2.3 / (1 + batch * 0.3):.4f}", flush=True)`,
    `    time.sleep(${seconds})`,
    'print("done", flush=True)',
    '',
  ].join('\n');
}

/** A small job through the API, for tests about what comes after submitting. */
export function job(name: string, code: string, more: Record<string, unknown> = {}) {
  return {
    user_id: 'admin',
    namespace: 'default',
    name,
    framework: 'pytorch',
    num_nodes: 1,
    cpu_request: '0.1',
    cpu_limit: '0.5',
    memory_request: '64Mi',
    memory_limit: '256Mi',
    training_code: code,
    command: 'python3 /workspace/scripts/train.py',
    ...more,
  };
}
