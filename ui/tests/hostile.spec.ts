import type { Page } from '@playwright/test';

import { expect, expectAccessible, job, script, signIn, test, watched } from './fixtures';
import { Server } from './server';

/** What no test of its own looks at: what people type, print and send to each other on purpose or by mistake. */
const FOREVER = { cpu_request: '900', cpu_limit: '900' };

const stateOf = async (server: Server, name: string) =>
  (await server.call<{ state: string }>('GET', `/api/trainjobs/${name}?namespace=default`)).state;
const remove = (server: Server, ...names: string[]) =>
  Promise.all(names.map((name) => server.call('DELETE', `/api/trainjob/${name}?namespace=default`)));

/** What of the page sticks out of its window, or of the box that it stands in. */
const cut = (page: Page) =>
  page.evaluate(() => [
    ...(document.documentElement.scrollWidth > innerWidth ? ['the page'] : []),
    ...[...document.querySelectorAll<HTMLElement>('[role=alert], [role=alert] *, dd, h2, [data-notes]')]
      .filter((one) => one.checkVisibility() && getComputedStyle(one).overflowX === 'visible')
      .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
      .filter((one) => one.closest('pre, [role=region]') === null)
      .map((one) => one.textContent.slice(0, 60)),
  ]);

test('addresses that people mistype or make up are read as far as they mean something', async ({
  app: page,
  server,
}) => {
  await server.call('POST', '/api/trainjob/create', job('is-addressed', script(2, 0)));
  await expect.poll(() => stateOf(server, 'is-addressed')).toBe('Complete');
  for (const [path, seen] of [
    ['/jobs?page=abc', '[data-job=is-addressed]'],
    ['/jobs?page=-3', '[data-job=is-addressed]'],
    ['/jobs?page=9999', '[data-job=is-addressed]'],
    ['/jobs?state=Bogus&sort=;drop&group=__proto__', '[data-job=is-addressed]'],
    ['/jobs/default/is-addressed/no-such-tab', '[data-phase]'],
    ['/jobs/default/is-addressed/logs?worker=abc&attempt=x', '[role=log] [data-index]'],
    ['/jobs/default/is-addressed/logs?q=(((&regex=1', '[role=log] [data-index]'],
    ['/jobs/default/is-addressed/advanced?view=nonsense', '.cm-line'],
    ['/jobs/default/is-addressed/metrics?with=no-such,,is-addressed', '[data-metric=loss] canvas'],
    ['/runtimes/%F0%9F%9A%80', 'h2'],
    ['/jobs/default/%F0%9F%9A%80', 'h2'],
    ['/jobs/%ED%95%9C/..%2Fx', 'h2'],
    ['/submit?runtime=none-such', '.cm-content'],
    ['/nodes/..%2F..%2Fapi', 'h2'],
  ] as const) {
    await page.goto(path);
    await expect(page.locator(seen).first(), path).toBeVisible();
    await expect(page.getByRole('alert'), path).toHaveCount(0);
  }
  await remove(server, 'is-addressed');
});

test('what cannot be compared does not hide what can', async ({ app: page, server }) => {
  const { token } = await server.call<{ token: string }>('POST', '/api/users', { name: 'namesake' });
  const own = { user_id: 'namesake', namespace: 'user-namesake' };
  await server.call('POST', '/api/trainjob/create', job('same-name', script(5, 0)));
  await server.call('POST', '/api/trainjob/create', job('same-name', script(9, 0), own), token);
  const [one, other] = ['default/same-name', 'user-namesake/same-name'];
  // The first is gone, one is there twice, and some are no jobs at all.
  await page.goto(`/compare?job=default/gone&job=${one}&job=${other}&job=${one}&job=a&job=/b&job=c/d/e`);
  await expect(page.getByRole('columnheader').getByRole('link')).toHaveText(['gone', one, other]);
  await expect(page.getByRole('columnheader').first()).toContainText('not found');
  const legend = page.locator('[data-metric=loss]').getByRole('button');
  await expect(legend).toHaveText([new RegExp(`^${one} \\d`), new RegExp(`^${other} \\d`)]);
  // Each of the two can be hidden by itself.
  await legend.first().click();
  await expect(legend.first()).toHaveAttribute('aria-pressed', 'false');
  await expect(legend.last()).toHaveAttribute('aria-pressed', 'true');
  await expectAccessible(page);
  await remove(server, 'same-name');
  await server.call('DELETE', '/api/trainjob/same-name?namespace=user-namesake');
  await server.call('DELETE', '/api/users/namesake');
});

for (const [locale, colorScheme, said] of [
  ['en-US', 'light', /pods are for others only/i],
  ['ko-KR', 'dark', '이 작업을 할 권한이 없습니다.'],
] as const) {
  test.describe(locale, () => {
    test.use({ locale, colorScheme });

    test('what is refused is told in the reader’s language, until they have read it', async ({
      app: page,
      server,
    }) => {
      const name = `refused-${locale.slice(0, 2)}`;
      await server.call('POST', '/api/trainjob/create', job(name, script(1), FOREVER));
      await page.route('**/suspend?*', (route) =>
        route.fulfill({
          status: 403,
          json: { error: { code: 'forbidden', message: 'pods are for others only' } },
        }),
      );
      await page.clock.install();
      await page.goto(`/jobs/default/${name}`);
      await page.getByRole('button', { name: /^(Suspend|일시 중지)$/ }).click();
      const told = page.getByRole('alert').filter({ hasText: said });
      await expect(told).toBeVisible();
      await page.clock.runFor(60_000);
      await expect(told).toBeVisible();
      await expectAccessible(page);
      await told.getByRole('button').click();
      await expect(told).toHaveCount(0);

      // A clone of what is gone is none.
      await page.goto('/submit?clone=default/never-was');
      await expect(page.getByRole('alert')).toBeVisible();
      await expect(page.getByText(/Filled in with|설정을 불러왔습니다/)).toHaveCount(0);
      await remove(server, name);
    });
  });
}

test('what a program prints is shown, and neither obeyed nor drawn', async ({ app: page, server }) => {
  const lines = [
    '<img src=x onerror="document.title=1"><script>document.title=2</script>',
    '\u001b[?25l\u001b[1;31mred\u001b[0m \u001b]8;;http://there/\u001b\\docs\u001b]8;;\u001b\\ end\u001b[?25h',
    '학습을 시작합니다 🚀 ' + '가'.repeat(3000),
    'step 1 __proto__=1 constructor=2 loss=0.5 val/acc@5=0.25 a-b.c=1',
    'step 2 __proto__=3 constructor=4 loss=0.25 val/acc@5=0.5 a-b.c=2',
  ];
  const code = lines.map((line) => `print(${JSON.stringify(line)}, flush=True)`).join('\n');
  const failing = `${code}\nraise ValueError("<b>bold</b> \\x1b[31mred\\x1b[0m " + "x" * 900)\n`;
  await server.call('POST', '/api/trainjob/create', job('prints-all', failing, { max_restarts: 0 }));
  await expect.poll(() => stateOf(server, 'prints-all')).toBe('Failed');
  await page.goto('/jobs/default/prints-all/logs');
  const log = page.getByRole('log');
  await expect(log).toContainText('<script>document.title=2</script>');
  await expect(log).toContainText('red docs end');
  await expect(log).not.toContainText('25l');
  await expect(log).not.toContainText('there');
  await expect(page).toHaveTitle('prints-all · Astrago Trainer');
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await expect(page.locator('[data-job=prints-all]')).toContainText('<b>bold</b>');
  await page.goto('/jobs/default/prints-all');
  await expect(page.locator('[data-failure]')).toContainText('<b>bold</b> red');
  await page.getByRole('tab', { name: 'Metrics' }).click();
  await expect(page.locator('[data-metric=loss] canvas')).toBeVisible();
  await expectAccessible(page);
  for (const width of [1440, 390, 320]) {
    await page.setViewportSize({ width, height: 700 });
    for (const tab of ['', '/logs', '/metrics', '/events', '/code']) {
      await page.goto(`/jobs/default/prints-all${tab}`);
      await expect(page.locator('[data-failure]')).toBeVisible();
      expect(await cut(page), `${tab} at ${width}`).toEqual([]);
      // The tab that is open is in sight, however many there are.
      const seen = () =>
        page.getByRole('tab', { selected: true }).evaluate((tab) => {
          const { left, right } = tab.getBoundingClientRect();
          return left >= 0 && right <= innerWidth;
        });
      await expect.poll(seen, `${tab} at ${width}`).toBe(true);
    }
  }
  await remove(server, 'prints-all');
});

test('what people write to a job may be anything', async ({ app: page, server }) => {
  const long = 'a-very-long-name-of-a-job-as-a-sweep-makes-them-lr-0-001-bs-256';
  await server.call('POST', '/api/trainjob/create', job(long.slice(0, 44), script(1), { suspend: true }));
  const name = long.slice(0, 44);
  const tags = ['실험 하나', '🚀', 'x'.repeat(40)];
  await server.call('PUT', `/api/trainjobs/${name}/notes?namespace=default`, {
    tags,
    note: `<b>not bold</b> 한글 메모 🎉 ${'w'.repeat(400)}`,
  });
  for (const width of [1440, 1024, 390, 320]) {
    await page.setViewportSize({ width, height: 700 });
    await page.goto(`/jobs?tag=${encodeURIComponent('실험 하나')}`);
    await expect(page.locator(`[data-job=${name}]`)).toBeVisible();
    expect(await cut(page), `the list at ${width}`).toEqual([]);
    await page.goto(`/jobs/default/${name}`);
    await expect(page.locator('[data-notes]')).toContainText('<b>not bold</b> 한글 메모 🎉');
    expect(await cut(page), `the job at ${width}`).toEqual([]);
  }
  await expectAccessible(page);
  await remove(server, name);
});

test('a hundred workers have room', async ({ app: page, server }) => {
  test.slow();
  await server.call(
    'POST',
    '/api/trainjob/create',
    job('is-large', script(1), { ...FOREVER, num_nodes: 100 }),
  );
  await page.goto('/jobs/default/is-large');
  await expect(page.locator('[data-worker]')).toHaveCount(100, { timeout: 30_000 });
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 800 });
    expect(await cut(page), `at ${width}`).toEqual([]);
  }
  await expectAccessible(page);
  await remove(server, 'is-large');
});

test('six restarts are seven attempts, and their times make up the whole', async ({ app: page, server }) => {
  test.setTimeout(240_000);
  const code = 'import sys\nprint("step 1/9 loss=2", flush=True)\nsys.exit(3)\n';
  const restarts = { max_restarts: 6, num_nodes: 2 };
  await server.call('POST', '/api/trainjob/create', job('starts-again', code, restarts));
  await expect.poll(() => stateOf(server, 'starts-again'), { timeout: 200_000 }).toBe('Failed');
  type Timeline = Record<string, unknown>;
  const { timeline, created_at, completed_at } = await server.call<{
    timeline: Timeline;
    created_at: string;
    completed_at: string;
  }>('GET', '/api/trainjobs/starts-again?namespace=default');
  const second = (time: string) => Math.floor(Date.parse(time) / 1000);
  const buckets = Object.entries(timeline).filter(([key]) => key.endsWith('_seconds'));
  const sum = buckets.reduce((all, [, seconds]) => all + Number(seconds), 0);
  expect(sum).toBe(second(completed_at) - second(created_at));
  await page.goto('/jobs/default/starts-again');
  await expect(page.getByRole('region', { name: 'Where the time went' })).toContainText('7 attempts');
  await expect(page.locator('[data-fact=Restarts] dd')).toHaveText('6 / 6');
  // Its pods are gone, or some of them; what they were is not forgotten.
  await expect(page.locator('[data-worker]')).toHaveCount(2);
  await page.goto('/jobs/default/starts-again/logs');
  await page.getByRole('combobox', { name: 'Attempt' }).click();
  await expect(page.getByRole('option')).toHaveCount(7);
  await remove(server, 'starts-again');
});

test('a job that somebody else deletes says so, on each of its pages', async ({
  app: page,
  server,
  context,
}) => {
  await server.call('POST', '/api/trainjob/create', job('is-deleted', script(3, 0)));
  await expect.poll(() => stateOf(server, 'is-deleted')).toBe('Complete');
  const tabs: Page[] = [];
  // A browser has six connections for all that it shows of one server, and each page in sight holds one open.
  for (const tab of ['', '/logs', '/events', '/advanced']) {
    const one = tab === '' ? page : await context.newPage();
    await one.goto(`/jobs/default/is-deleted${tab}`);
    await expect(one.getByRole('button', { name: 'Delete' })).toBeVisible();
    tabs.push(one);
  }
  await remove(server, 'is-deleted');
  for (const one of tabs) {
    await expect(one.getByText('deleted', { exact: true })).toBeVisible();
    await expect(one.getByRole('button', { name: 'Delete' })).toHaveCount(0);
    await expect(one.getByRole('button', { name: 'Clone' })).toBeVisible();
    await one.reload();
    await expect(one.getByText('deleted', { exact: true })).toBeVisible();
    await expect(one.getByRole('alert')).toHaveCount(0);
  }
});

test('back and forward lead through filters, tabs and what was searched', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('goes-back', script(8, 0)));
  await expect.poll(() => stateOf(server, 'goes-back')).toBe('Complete');
  await page.goto('/jobs');
  await page.getByRole('combobox', { name: 'State' }).click();
  await page.getByRole('option', { name: 'Complete' }).click();
  await expect(page).toHaveURL(/state=Complete/);
  await page.getByRole('link', { name: 'goes-back' }).click();
  await page.getByRole('tab', { name: 'Logs' }).click();
  await page.getByRole('textbox', { name: 'Search in the log' }).fill('Batch 5/');
  await page.keyboard.press('Enter');
  await expect(page.locator('[data-hit]')).toBeVisible();
  await page.getByRole('tab', { name: 'Events' }).click();
  await expect(page.locator('tbody tr').first()).toBeVisible();
  await page.goBack();
  await expect(page.getByRole('textbox', { name: 'Search in the log' })).toHaveValue('Batch 5/');
  await page.goBack();
  await expect(page.getByRole('tab', { name: 'Overview' })).toHaveAttribute('aria-selected', 'true');
  await page.goBack();
  await expect(page.getByRole('combobox', { name: 'State' })).toHaveValue('Complete');
  await page.goBack();
  await expect(page.getByRole('combobox', { name: 'State' })).toHaveValue('');
  await page.goForward();
  await expect(page.getByRole('combobox', { name: 'State' })).toHaveValue('Complete');
  await remove(server, 'goes-back');
});

const EVERYWHERE = ['/jobs', '/submit', '/queue', '/nodes', '/runtimes', '/settings', '/jobs/default/stays'];

test('a revoked token ends the session on every page', async ({ browser, server }) => {
  await server.call('POST', '/api/trainjob/create', job('stays', script(1), { suspend: true }));
  const { token, id } = await server.call<{ token: string; id: string }>('POST', '/api/tokens', {
    name: 'gone',
  });
  const context = await browser.newContext({ baseURL: server.origin });
  const pages: Page[] = [];
  for (const path of EVERYWHERE) {
    const page = await context.newPage();
    if (pages.length === 0) await signIn(page, token);
    await page.goto(path);
    await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
    pages.push(page);
  }
  await server.call('DELETE', `/api/tokens/${id}`);
  for (const page of pages) await expect(page).toHaveURL(/\/login$/, { timeout: 20_000 });
  await context.close();
  await remove(server, 'stays');
});

test('on every page one is told that the server is away, sees what there was, and goes on', async ({
  browser,
}) => {
  test.slow();
  const server = new Server(['--no-node']);
  await server.start();
  const context = await browser.newContext({ baseURL: server.origin });
  try {
    await server.call('POST', '/api/trainjob/create', job('stays', script(1), { suspend: true }));
    const pages: [Page, string[]][] = [];
    for (const path of EVERYWHERE) {
      const page = await context.newPage();
      if (pages.length === 0) await signIn(page, server.token);
      await page.goto(path);
      await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
      await expect(page.locator('.mantine-Loader-root, .mantine-Skeleton-root')).toHaveCount(0);
      pages.push([page, watched(page)]);
    }
    const titles = await Promise.all(pages.map(([page]) => page.title()));
    await server.stop();
    for (const [page] of pages) {
      await expect(page.getByText('Reconnecting to the server…')).toBeVisible({ timeout: 20_000 });
      await expect(page.getByRole('heading', { level: 2 })).toBeVisible();
    }
    await server.start();
    for (const [page] of pages) {
      await expect(page.getByText('Reconnecting to the server…')).toBeHidden({ timeout: 40_000 });
      await expect(page.getByRole('alert')).toHaveCount(0);
    }
    expect(await Promise.all(pages.map(([page]) => page.title()))).toEqual(titles);
    // What cannot be had is told by the browser itself; the page adds nothing of its own.
    const own = pages.flatMap(([, problems]) =>
      problems.filter((one) => !/Failed to load resource/.test(one)),
    );
    expect(own).toEqual([]);
  } finally {
    await context.close();
    await server.dispose();
  }
});

test('whoever signs out in one tab is signed out in the other', async ({ app: page, context }) => {
  await page.goto('/jobs');
  const other = await context.newPage();
  await other.goto('/queue');
  await expect(other.getByRole('heading', { name: 'Queue' })).toBeVisible();
  await page.getByRole('button', { name: /^Account of / }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expect(page).toHaveURL(/\/login$/);
  await expect(other).toHaveURL(/\/login$/, { timeout: 20_000 });
});

test('a job is found, opened, searched and compared by keys alone', async ({ app: page, server }) => {
  for (const name of ['by-keys-a', 'by-keys-b'])
    await server.call('POST', '/api/trainjob/create', job(name, script(4, 0)));
  for (const name of ['by-keys-a', 'by-keys-b'])
    await expect.poll(() => stateOf(server, name)).toBe('Complete');
  await page.goto('/jobs');
  await expect(page.locator('[data-job=by-keys-a]')).toBeVisible();
  await page.keyboard.press('/');
  await page.keyboard.type('by-keys');
  await expect(page.locator('[data-job]')).toHaveCount(2);
  const until = async (reached: () => Promise<boolean>) => {
    for (let pressed = 0; pressed < 60; pressed++) {
      if (await reached()) return;
      await page.keyboard.press('Tab');
    }
    throw new Error('the Tab key does not lead there');
  };
  const focused = (label: string) => () =>
    page.evaluate((label) => {
      const at = document.activeElement;
      return (at?.getAttribute('aria-label') ?? at?.textContent) === label;
    }, label);
  await until(focused('Select all'));
  await page.keyboard.press('Space');
  await until(focused('Compare'));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/compare\?job=/);
  await until(focused('by-keys-a'));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/jobs\/default\/by-keys-a$/);
  await until(focused('Overview'));
  await page.keyboard.press('ArrowRight');
  await expect(page).toHaveURL(/by-keys-a\/logs$/);
  await expect(page.getByRole('log')).toBeVisible();
  await page.keyboard.press('/');
  await page.keyboard.type('Batch 2');
  await page.keyboard.press('Enter');
  await expect(page.locator('[data-hit]')).toContainText('Batch 2');
  await remove(server, 'by-keys-a', 'by-keys-b');
});
