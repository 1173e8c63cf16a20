import type { Page } from '@playwright/test';

import { expect, expectAccessible, job, script, signIn, test } from './fixtures';

const TALKS =
  'import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint("on and on", flush=True)\ntime.sleep(600)\n';
const FOREVER = { cpu_request: '900', cpu_limit: '900' };

/** The ground of what a selector finds, as the browser computes it. */
const ground = (page: Page, selector: string) =>
  page
    .locator(selector)
    .first()
    .evaluate((element) => getComputedStyle(element).backgroundColor);
const NONE = 'rgba(0, 0, 0, 0)';

for (const colorScheme of ['light', 'dark'] as const) {
  test.describe(colorScheme, () => {
    test.use({ colorScheme });

    test('what is chosen, found or pointed at has a ground of its own', async ({ app: page, server }) => {
      await server.call('POST', '/api/trainjob/create', job(`grounds-${colorScheme}`, script(5, 0)));
      const grounds: Record<string, string> = {};
      await page.goto('/submit');
      await expect(page.getByRole('radio', { name: 'PyTorch' })).toBeChecked();
      grounds['card'] = await ground(page, '.mantine-RadioCard-card[data-checked]');

      await page.goto('/jobs');
      await page.getByRole('checkbox', { name: `Select grounds-${colorScheme}` }).check();
      grounds['row'] = await ground(page, 'tr[data-selected]');

      await page.goto(`/jobs/default/grounds-${colorScheme}/logs`);
      await expect(page.getByRole('log')).toContainText('Batch 3/5');
      grounds['log'] = await ground(page, '[role=log]');
      await page.locator('[role=log] [data-index]').first().hover();
      grounds['line'] = await ground(page, '[role=log] [data-index]');
      await page.getByRole('textbox', { name: 'Search in the log' }).fill('Batch 3/');
      await page.keyboard.press('Enter');
      await expect(page.locator('[data-hit]')).toBeVisible();
      grounds['hit'] = await ground(page, '[data-hit]');
      grounds['mark'] = await ground(page, '[role=log] mark');
      grounds['current'] = await ground(page, '[aria-current=true][class*=found]');
      expect(Object.entries(grounds).filter(([, color]) => color === NONE || color === '')).toEqual([]);

      // Dark is dark: the parts of the two themes are not mixed up.
      const [red = 0] = /\d+/.exec(grounds['log'] ?? '')?.map(Number) ?? [];
      expect(red > 128).toBe(colorScheme === 'light');
      await server.call('DELETE', `/api/trainjob/grounds-${colorScheme}?namespace=default`);
    });
  });
}

test('a page that cannot be loaded is explained, and comes by itself when the server is back', async ({
  browser,
  server,
}) => {
  const context = await browser.newContext({ baseURL: server.origin });
  const page = await context.newPage();
  await signIn(page, server.token);
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'Jobs', level: 2 })).toBeVisible();
  await context.setOffline(true);
  await page.getByRole('link', { name: 'Nodes' }).click();
  await expect(page.locator('[data-broken=away]')).toContainText('The server cannot be reached');
  await expect(page.getByRole('link', { name: 'Queue' })).toBeVisible();
  await context.setOffline(false);
  await expect(page.getByRole('heading', { name: 'Nodes', level: 2 })).toBeVisible();
  await context.close();
});

for (const [locale, colorScheme, said] of [
  ['en-US', 'light', 'The page could not be loaded.'],
  ['ko-KR', 'dark', '페이지를 불러오지 못했습니다.'],
] as const)
  test(`a page that does not even begin is explained, and comes by itself: ${locale}`, async ({
    browser,
    server,
  }) => {
    const context = await browser.newContext({ baseURL: server.origin, locale, colorScheme });
    const page = await context.newPage();
    await signIn(page, server.token);
    // One part of what everything is made of, and then the server itself.
    await page.route(/\/assets\/index-.*\.js/, (route) => route.abort());
    let away = true;
    await page.route('**/', (route) => (away ? route.abort() : route.continue()));
    await page.goto('/jobs');
    await expect(page.locator('[data-broken=broken]')).toContainText(said);
    await expectAccessible(page);
    await page.unroute(/\/assets\/index-.*\.js/);
    away = false;
    await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
    await context.close();
  });

test('a newer page on the server is loaded once, and a broken one is not loaded for ever', async ({
  browser,
  server,
}) => {
  const context = await browser.newContext({ baseURL: server.origin });
  const page = await context.newPage();
  await signIn(page, server.token);
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'Jobs' })).toBeVisible();
  // Another version: other names for everything, and the old ones are gone.
  let loads = 0;
  await page.route(/\/assets\/Nodes-.*\.js/, (route) => route.fulfill({ status: 404, body: '' }));
  await page.route('**/', async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replace(/src="\/assets\/[^"]+"/, 'src="/assets/index-new.js"');
    await route.fulfill({ response: answer, body });
  });
  page.on('framenavigated', () => loads++);
  await page.getByRole('link', { name: 'Nodes' }).click();
  await expect(page.locator('[data-broken=newer]')).toContainText('newer version');
  // Once to /nodes by the router, and once loaded anew.
  expect(loads).toBe(2);
  await context.close();
});

test('a user finds nothing of the one before them in the same browser', async ({ page, server }) => {
  const { token } = await server.call<{ token: string }>('POST', '/api/users', { name: 'next' });
  await signIn(page, server.token);
  await page.goto('/submit');
  await page.getByRole('textbox', { name: 'train.py' }).fill('print("of the first user")');
  await page.getByRole('textbox', { name: 'Command' }).fill('python3 /workspace/scripts/train.py');
  await page.getByRole('button', { name: 'Environment variables' }).click();
  for (const [name, value] of [
    ['HF_TOKEN', 'hush-hush'],
    ['EPOCHS', '3'],
  ] as const) {
    await page.getByRole('button', { name: 'Add a variable' }).click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).last().fill(name);
    await page.getByRole('textbox', { name: 'Value' }).last().fill(value);
  }
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page).toHaveURL(/\/jobs\/default\//);
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage }));
  expect(kept).toContain('of the first user');
  expect(kept).not.toContain('hush-hush');

  await page.getByRole('button', { name: /^Account of / }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(page).toHaveURL(/\/login$/);
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage }))).not.toContain('first user');
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL(/\/jobs$/);
  await page.goto('/submit');
  await page.getByRole('button', { name: 'Templates' }).click();
  await expect(page.getByRole('menuitem').first()).toBeVisible();
  await expect(page.getByRole('menuitem', { name: /last job again/ })).toHaveCount(0);
  await server.call('DELETE', '/api/users/next');
});

test('an ended session leads the next user to their own first page', async ({ page, server }) => {
  const { token } = await server.call<{ token: string }>('POST', '/api/users', { name: 'other' });
  await signIn(page, server.token);
  await page.goto('/nodes');
  await expect(page.getByRole('heading', { name: 'Nodes' })).toBeVisible();
  await page.context().clearCookies();
  await expect(page).toHaveURL(/\/login$/);
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expect(page).toHaveURL(/\/jobs$/);
  await server.call('DELETE', '/api/users/other');
});

for (const locale of ['en-US', 'ko-KR'] as const) {
  test(`a refused job is told beside the button: ${locale}`, async ({ browser, server }) => {
    const context = await browser.newContext({ baseURL: server.origin, locale });
    const page = await context.newPage();
    await signIn(page, server.token);
    const submit = page.getByRole('button', { name: /^(Submit|제출)$/ });
    const told = (text: RegExp) => page.locator('form').getByRole('alert').filter({ hasText: text });
    const create = '**/api/trainjob/create';
    await page.goto('/submit');
    await page.getByRole('textbox', { name: 'train.py' }).fill('print(1)');
    await page.route(create, (route) =>
      route.fulfill({ status: 403, json: { error: { code: 'forbidden', message: 'you may not do this' } } }),
    );
    await submit.click();
    await expect(told(/You may not do this|권한이 없습니다/)).toBeInViewport({ ratio: 1 });
    await expect(submit).toBeInViewport({ ratio: 1 });
    await page.unroute(create);
    await page.route(create, (route) => route.abort());
    await submit.click();
    await expect(told(/cannot be reached|연결할 수 없습니다/)).toBeInViewport({ ratio: 1 });
    await expectAccessible(page);
    await context.close();
  });
}

test('a new row is not wrong before one can type', async ({ app: page }) => {
  await page.goto('/submit');
  await page.getByRole('textbox', { name: 'train.py' }).fill('print(1)');
  for (const [section, add] of [
    ['Environment variables', 'Add a variable'],
    ['Volumes', 'Add a volume'],
  ] as const) {
    await page.getByRole('button', { name: section }).click();
    await page.getByRole('button', { name: add }).click();
  }
  const checked = page.waitForResponse('**/api/trainjob/preview');
  await page.getByRole('textbox', { name: 'Name', exact: true }).first().fill('with-rows');
  await checked;
  await expect(page.locator('[data-fit]')).toBeVisible();
  await expect(page.locator('[aria-invalid=true]')).toHaveCount(0);
  // One that was begun must be finished.
  await page.getByRole('textbox', { name: 'Mount path' }).fill('/data');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page.locator('[aria-invalid=true]')).toHaveCount(2);
  await expect(page).toHaveURL(/\/submit$/);
});

test('Ctrl-K, a name, Enter: one is there', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('found-by-name', script(1)));
  await page.goto('/queue');
  await expect(page.getByRole('heading', { name: 'Queue' })).toBeVisible();
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog').getByRole('textbox').waitFor();
  await page.keyboard.type('found-by');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/jobs\/default\/found-by-name$/);
  await expect(page).toHaveTitle('found-by-name · Astrago Trainer');
  await page.getByRole('link', { name: 'Queue' }).click();
  await expect(page).toHaveTitle('Queue · Astrago Trainer');
  await server.call('DELETE', '/api/trainjob/found-by-name?namespace=default');
});

test('an address that leads nowhere says so', async ({ app: page }) => {
  await page.goto('/no/such/page');
  await expect(page.getByRole('heading', { name: 'There is no such page' })).toBeVisible();
  await expect(page).toHaveURL(/\/no\/such\/page$/);
  await page.goto('/jobs/default/no-such-job');
  await expect(page.getByRole('heading', { name: 'There is no job no-such-job' })).toBeVisible();
  await expect(page.getByRole('tab')).toHaveCount(0);
  await expectAccessible(page);
});

test('what is compared is in the address, with the settings that differ', async ({ app: page, server }) => {
  for (const [name, epochs] of [
    ['one-of-two', '3'],
    ['two-of-two', '5'],
  ] as const)
    await server.call(
      'POST',
      '/api/trainjob/create',
      job(name, script(10, 0), { env_vars: [{ name: 'EPOCHS', value: epochs }] }),
    );
  await page.goto('/jobs/default/one-of-two/metrics');
  await page.getByRole('combobox', { name: 'Compare with' }).click();
  await page.getByRole('option', { name: 'two-of-two' }).click();
  await expect(page).toHaveURL(/with=two-of-two$/);
  await page.reload();
  await expect(page.locator('[data-metric=loss]').getByRole('button', { name: /^two-of-two/ })).toBeVisible();

  await page.goto('/jobs?q=-of-two');
  await page.getByRole('checkbox', { name: 'Select all' }).check();
  await page.getByRole('link', { name: 'Compare' }).click();
  await expect(page).toHaveURL(/compare\?job=default%2F.*job=default%2F/);
  await expect(page.locator('[data-setting="$EPOCHS"]')).toHaveAttribute('data-differs', 'true');
  await expect(page.locator('[data-setting=framework]')).toBeVisible();
  await expect(page.locator('[data-setting=framework]')).not.toHaveAttribute('data-differs', 'true');
  const chart = page.locator('[data-metric=loss]');
  await expect(chart.getByRole('button', { name: /^one-of-two/ })).toBeVisible();
  await expect(chart.getByRole('button', { name: /^two-of-two/ })).toBeVisible();
  await expectAccessible(page);
  for (const name of ['one-of-two', 'two-of-two'])
    await server.call('DELETE', `/api/trainjob/${name}?namespace=default`);
});

test('a number in a traceback is not the main chart', async ({ app: page, server }) => {
  const code =
    'print("batch_size=64", flush=True)\nfor i in range(9): print(f"step {i} accuracy={i/9:.3f}", flush=True)\n';
  await server.call('POST', '/api/trainjob/create', job('prints-settings', code));
  await page.goto('/jobs/default/prints-settings');
  await expect(page.getByRole('img', { name: 'accuracy' })).toBeVisible();
  await expect(page.getByRole('img', { name: 'batch_size' })).toHaveCount(0);
  await page.goto('/jobs/default/prints-settings/advanced?view=pods');
  await expect(page.getByRole('textbox', { name: 'Pods' })).toContainText('prints-settings');
  await server.call('DELETE', '/api/trainjob/prints-settings?namespace=default');
});

test('the queue does not promise a place to what can never run', async ({ app: page, server, browser }) => {
  await server.call('POST', '/api/trainjob/create', job('never-runs', script(1), FOREVER));
  await page.goto('/queue');
  const row = page.locator('[data-queued=never-runs]');
  await expect(row).toContainText('Cannot run');
  await expect(row.getByRole('cell').first()).not.toHaveText('1');
  await page.goto('/jobs/default/never-runs');
  await expect(page.locator('[data-waiting=never]')).toContainText('Cannot run here');
  await expect(page.locator('[data-waiting=never]')).not.toContainText('position');

  // Somebody who may not see it is not told that nothing waits.
  const { token } = await server.call<{ token: string }>('POST', '/api/users', { name: 'looks-on' });
  const context = await browser.newContext({ baseURL: server.origin });
  const other = await context.newPage();
  await signIn(other, token);
  await other.goto('/queue');
  await expect(other.getByRole('heading', { name: 'None of your jobs is waiting' })).toBeVisible();
  await expect(other.getByText('All jobs have the room they need.')).toHaveCount(0);
  await context.close();
  await server.call('DELETE', '/api/users/looks-on');
  await server.call('DELETE', '/api/trainjob/never-runs?namespace=default');
});

test('a job is suspending until its last node has stopped', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('hard-to-stop', TALKS));
  await page.goto('/jobs/default/hard-to-stop');
  const state = page.getByRole('main').locator('[data-state]').first();
  await expect(state).toHaveText('Running');
  await page.getByRole('button', { name: 'Suspend' }).click();
  // What is lost is said before, not after.
  const question = page.getByRole('dialog', { name: 'Suspend hard-to-stop?' });
  await expect(question).toContainText('starts from the beginning');
  await question.getByRole('button', { name: 'Suspend' }).click();
  await expect(state).toHaveText('Suspending');
  await expect(page.getByRole('button', { name: 'Undo' })).toHaveCount(0);
  await expect(state).toHaveText('Suspended', { timeout: 45_000 });
  await server.call('DELETE', '/api/trainjob/hard-to-stop?namespace=default');
});

test('a change of a job is drawn without asking for the list again', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('is-pushed', script(1), FOREVER));
  let asked = 0;
  page.on('request', (request) => (asked += /\/api\/trainjobs\?.*limit=50/.test(request.url()) ? 1 : 0));
  await page.goto('/jobs?q=is-pushed');
  const row = page.locator('[data-job=is-pushed]');
  await expect(row.locator('[data-state=Pending]')).toBeVisible();
  await server.call('POST', '/api/trainjobs/is-pushed/suspend?namespace=default');
  await expect(row.locator('[data-state=Suspended]')).toBeVisible();
  // At first, and when the stream was there.
  const before = asked;
  await server.call('POST', '/api/trainjobs/is-pushed/resume?namespace=default');
  await expect(row.locator('[data-state=Pending]')).toBeVisible();
  expect(asked).toBe(before);
  await server.call('DELETE', '/api/trainjob/is-pushed?namespace=default');
  await expect(row).toHaveCount(0);
});

test('a job that runs is followed without asking for everything again', async ({ app: page, server }) => {
  const asked: string[] = [];
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === '/api/trainjobs' && searchParams.get('limit') === '50') asked.push('list');
    if (/\/api\/trainjobs\/runs-watched(\/|$)/.test(pathname)) asked.push(pathname);
  });
  const times = (what: string) => asked.filter((one) => one === what).length;
  // It may answer before anything can be seen.
  const listed = page.waitForResponse('**/api/trainjobs/stream');
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'Jobs', level: 2 })).toBeVisible();
  await listed;
  // Once for the page, and once more unless the stream was open before the answer came.
  await expect.poll(() => times('list')).toBeGreaterThan(0);
  const begun = Date.now();
  await server.call('POST', '/api/trainjob/create', job('runs-watched', script(30, 0.05), { num_nodes: 2 }));
  const row = page.locator('[data-job=runs-watched]');
  await expect(row.locator('[data-state=Running]')).toBeVisible();
  await expect(row.locator('[data-state=Complete]')).toBeVisible();
  // It came, was queued, started on two nodes and ended; the clock alone asks, for what is not pushed.
  expect(times('list') - 2).toBeLessThanOrEqual(Math.ceil((Date.now() - begun) / 10_000));
  // Whoever looks at another page of it is not told more than they see.
  expect(asked.filter((one) => one !== 'list')).toEqual([]);

  // Whoever looks at one job asks for nothing of it because of another.
  const opened = page.waitForResponse('**/api/trainjobs/stream');
  await page.goto('/jobs/default/runs-watched');
  await expect(page.getByRole('main').locator('[data-state=Complete]').first()).toBeVisible();
  await opened;
  await server.call('POST', '/api/trainjob/create', job('runs-beside', script(1), { suspend: true }));
  const settled = times('/api/trainjobs/runs-watched/attempts');
  await server.call('DELETE', '/api/trainjob/runs-beside?namespace=default');
  await server.call('PUT', '/api/trainjobs/runs-watched/notes?namespace=default', { tags: ['pushed'] });
  await expect(page.locator('[data-notes]')).toContainText('pushed');
  expect(times('/api/trainjobs/runs-watched/attempts') - settled).toBeLessThanOrEqual(1);
  await server.call('DELETE', '/api/trainjob/runs-watched?namespace=default');
});

test('a draft survives a reload, and a template does not replace it unasked', async ({ app: page }) => {
  await page.goto('/submit');
  const editor = page.getByRole('textbox', { name: 'train.py' });
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: /TensorFlow example/ }).click();
  await expect(editor).toContainText('TensorFlow');
  // What a template gave, another may replace.
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: /JAX example/ }).click();
  await expect(editor).toContainText('JAX');

  await editor.fill('print("my own words")');
  await expect.poll(() => page.evaluate(() => JSON.stringify({ ...localStorage }))).toContain('my own words');
  await page.reload();
  await expect(editor).toContainText('my own words');
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: /TensorFlow example/ }).click();
  await page.getByRole('dialog').getByText('Cancel').click();
  await expect(editor).toContainText('my own words');
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: /TensorFlow example/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Replace' }).click();
  await expect(editor).toContainText('TensorFlow');
  await page.getByRole('button', { name: 'Reset' }).click();
});

test('says in plain words what is asked for, and offers only sizes that the cluster has', async ({
  app: page,
}) => {
  await page.goto('/submit');
  const summary = page.locator('[data-summary]');
  await expect(summary).toHaveText('2 × PyTorch, 1 CPU · 1 GiB each.');
  for (const preset of ['Small', 'Medium', 'Large']) {
    await page.getByRole('radio', { name: preset }).click();
    await expect(page.getByRole('radio', { name: preset })).toBeChecked();
    await expect(page.locator('[data-fit=never_fits]')).toHaveCount(0);
  }
  await page.getByRole('button', { name: 'Show the YAML' }).click();
  await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('kind: TrainJob');
});

test('a failure is told in plain words in the list, and memory can be raised from its banner', async ({
  app: page,
  server,
}) => {
  const hungry = 'x = []\nwhile True: x.append(bytearray(8 << 20))\n';
  const size = { memory_request: '64Mi', memory_limit: '64Mi', max_restarts: 0 };
  await server.call('POST', '/api/trainjob/create', job('eats-memory', hungry, size));
  await page.goto('/jobs?q=eats-memory');
  const row = page.locator('[data-job=eats-memory]');
  await expect(row).toContainText('Out of memory');
  await expect(row).not.toContainText('jobset failed');
  await row.getByRole('link', { name: 'eats-memory' }).click();
  await page.getByRole('button', { name: 'Run again with 128 MiB of memory' }).click();
  await expect(page).not.toHaveURL(/eats-memory/);
  await expect(page.locator('[data-fact="Per node"]')).toContainText('128 MiB');
});

test('the list gives up columns before it gives up room', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('in-a-column', script(1)));
  for (const [width, columns] of [
    [1024, 6],
    [1280, 9],
    [1440, 10],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto('/jobs?q=in-a-column');
    await expect(page.locator('[data-job=in-a-column]')).toBeVisible();
    await expect(page.locator('th:visible')).toHaveCount(columns);
    const hidden = await page
      .locator('.table table')
      .evaluate((table) => table.scrollWidth - (table.parentElement?.clientWidth ?? 0));
    expect(hidden, `at ${width}`).toBeLessThanOrEqual(0);
    // Nor do other tables send what matters over the edge.
    for (const path of ['/nodes', '/jobs/default/in-a-column/events']) {
      await page.goto(path);
      await expect(page.locator('tbody tr').first()).toBeVisible();
      const over = await page
        .locator('.table table')
        .evaluate((table) => table.scrollWidth - (table.parentElement?.clientWidth ?? 0));
      expect(over, `${path} at ${width}`).toBeLessThanOrEqual(0);
    }
  }
  await server.call('DELETE', '/api/trainjob/in-a-column?namespace=default');
});
