import { gzipSync } from 'node:zlib';

import { expect, expectAccessible, job, script, test } from './fixtures';
import type { Server } from './server';

const PAGES = [
  '/jobs',
  '/submit',
  '/nodes',
  '/queue',
  '/runtimes',
  '/runtimes/pytorch-simple',
  '/settings',
  '/jobs?group=state',
  '/jobs?q=no-such-job',
  '/jobs/default/shown',
  '/jobs/default/shown/logs',
  '/jobs/default/shown/metrics',
  '/jobs/default/shown/events',
  '/jobs/default/shown/code',
  '/jobs/default/shown/advanced',
  '/jobs/default/shown/advanced?view=pods',
  '/jobs/default/shown-failed',
  '/jobs/default/shown-waiting',
  '/compare',
  '/compare?job=default/shown&job=default/shown-failed',
  '/jobs/default/no-such-job',
  '/no/such/page',
];

/** The page of this machine, whatever it is called. */
const MACHINE = '/nodes/…';

async function machineOf(server: Server): Promise<string> {
  const [machine] = await server.call<{ name: string }[]>('GET', '/api/nodes');
  return `/nodes/${machine?.name}`;
}

test.beforeAll(async ({ server }) => {
  const failing = 'raise ValueError("on purpose")\n';
  const waiting = { cpu_request: '900', cpu_limit: '900' };
  for (const body of [
    job('shown', script(5, 0)),
    job('shown-failed', failing, { max_restarts: 0 }),
    job('shown-waiting', script(1), waiting),
  ]) {
    await server.call('POST', '/api/trainjob/create', body).catch((error: Error) => {
      // After a failed test a new worker finds the jobs of the one before.
      if (!error.message.includes('409')) throw error;
    });
  }
  const stateOf = async (name: string) =>
    (await server.call<{ state: string }>('GET', `/api/trainjobs/${name}?namespace=default`)).state;
  await expect.poll(() => stateOf('shown')).toBe('Complete');
  await expect.poll(() => stateOf('shown-failed')).toBe('Failed');
});

test.afterAll(async ({ server }) => {
  await server.call('DELETE', '/api/trainjob/shown-waiting?namespace=default');
});

// What is said does not depend on the colours: two of the four pairs have seen both languages and both themes.
for (const [locale, colorScheme] of [
  ['en-US', 'light'],
  ['ko-KR', 'dark'],
] as const) {
  test.describe(`${locale}, ${colorScheme}`, () => {
    test.use({ colorScheme, locale });

    for (const name of [...PAGES, MACHINE])
      test(`is accessible, in one language: ${name}`, async ({ app: page, server }) => {
        await page.goto(name === MACHINE ? await machineOf(server) : name);
        await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
        await expect(page.locator('.mantine-Loader-root, .mantine-Skeleton-root')).toHaveCount(0);
        await expectAccessible(page);
        if (locale === 'ko-KR') expect(await page.evaluate(englishOf)).toEqual([]);
      });

    test('signing in, the palette and a question are accessible', async ({ page, app }) => {
      await app.goto('/login');
      await expect(page.getByLabel(/^(Access token|액세스 토큰)$/)).toBeVisible();
      await expectAccessible(page);
      await app.goto('/jobs/default/shown');
      await page.getByRole('button', { name: /^(Delete|삭제)$/ }).click();
      await expect(page.getByRole('dialog')).toBeVisible();
      await expectAccessible(page);
      await page.keyboard.press('Escape');
      await expect(page.getByRole('dialog')).toHaveCount(0);
      await page.keyboard.press('Control+k');
      await expect(page.getByRole('dialog')).toBeVisible();
      await expectAccessible(page);
    });
  });
}

/** What is left of English on a page in another language. Runs in the page. */
function englishOf(): string[] {
  // Names and what others wrote (logs, YAML, code, messages of Kubernetes) are not ours to translate.
  const foreign = '[lang=en], code, pre, .code-editor, [role=log], .uplot, [data-log-state], option';
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found: string[] = [];
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const text = node.textContent?.trim() ?? '';
    const names = /Astrago Trainer|Training Operator|astrago run|Ctrl K/g;
    if (
      node.parentElement?.closest(foreign) !== null ||
      node.parentElement?.closest('script, style') !== null
    )
      continue;
    // What the program itself said is quoted behind our sentence.
    const own = text.replace(/([가-힣]): .*$/s, '$1').replaceAll(names, '');
    if (/[A-Za-z]{2,} [a-z]{2,}/.test(own)) found.push(text);
  }
  return found;
}

test('the palette goes anywhere', async ({ app: page }) => {
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'Jobs' })).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('textbox').fill('Runt');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/runtimes$/);
});

test('keys lead from page to page, and can be turned off', async ({ app: page }) => {
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'Jobs' })).toBeVisible();
  await page.keyboard.type('gq');
  await expect(page).toHaveURL(/\/queue$/);
  await page.keyboard.press('c');
  await expect(page).toHaveURL(/\/submit$/);
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog', { name: 'Keyboard shortcuts' })).toContainText('Search on this page');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
  // Letters that are typed into a field are no commands.
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('');
  await page.keyboard.type('gq');
  await expect(page).toHaveURL(/\/submit$/);

  await page.goto('/settings');
  await page.getByRole('switch', { name: 'Single-key shortcuts' }).uncheck({ force: true });
  await page.getByRole('heading', { name: 'Settings' }).click();
  await page.keyboard.type('gq');
  await expect(page).toHaveURL(/\/settings$/);
});

test('says what the cluster is and has', async ({ app: page }) => {
  await page.goto('/settings');
  const cluster = page.getByRole('region', { name: 'Server' });
  await expect(cluster.locator('[data-fact="Runtime overrides"]')).toContainText('runtimePatches');
  await expect(cluster.locator('[data-fact="Jobs are run by"]')).toContainText('Astrago’s own controllers');
  await expect(cluster.locator('[data-part=training_operator_v1]')).toHaveAttribute('data-there', 'true');
  await expect(cluster.locator('[data-part=kueue]')).toHaveAttribute('data-there', 'false');
});

test('speaks two languages and remembers which', async ({ app: page }) => {
  await page.goto('/settings');
  await page.getByRole('radiogroup', { name: 'Language' }).getByText('한국어').click();
  await expect(page.getByRole('heading', { name: '설정' })).toBeVisible();
  await expect(page.locator('html')).toHaveAttribute('lang', 'ko');
  await page.goto('/submit');
  await expect(page.getByRole('button', { name: '제출', exact: true })).toBeVisible();
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 375, height: 740 }, hasTouch: true });

  test('nothing sticks out and the menu works', async ({ app: page, server }) => {
    for (const path of [...PAGES, await machineOf(server)]) {
      await page.goto(path);
      await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      expect(wide, path).toBeLessThanOrEqual(0);
      const header = await page.locator('header').evaluate((bar) => bar.scrollWidth - bar.clientWidth);
      expect(header, path).toBeLessThanOrEqual(0);
    }
    await page.getByRole('button', { name: 'Menu' }).click();
    await page.getByRole('link', { name: 'Queue' }).click();
    await expect(page).toHaveURL(/\/queue$/);
    await expect(page.locator('main')).toContainText('shown-waiting');
  });
});

test('loads little, and from this server only', async ({ app: page, server }) => {
  let size = 0;
  const bodies: Promise<void>[] = [];
  page.on('response', (response) => {
    const { origin, pathname } = new URL(response.url());
    expect(origin).toBe(server.origin);
    if (pathname.startsWith('/api/')) return;
    bodies.push(response.body().then((body) => void (size += gzipSync(body).length)));
    // Over the wire, too; Vite, where it stands before the binary, compresses nothing.
    const zipped = response.headers()['content-encoding'] === 'gzip';
    expect(zipped || server.behindVite || /\.woff2$/.test(pathname), pathname).toBe(true);
  });
  await page.goto('/jobs');
  await expect(page.locator('[data-job=shown]')).toBeVisible();
  await Promise.all(bodies);
  expect(size).toBeGreaterThan(50_000);
  expect(size).toBeLessThan(400_000);
});
