import { expect, job, script, signIn, test, watched } from './fixtures';

test(
  'signs in with a token, back to the page that was asked for, and out again',
  { tag: '@cluster' },
  async ({ page, server }) => {
    await page.goto('/nodes');
    await expect(page).toHaveURL(/\/login$/);
    await page.getByLabel('Access token').fill('not a token');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.getByText('This token is not valid.')).toBeVisible();

    await page.getByLabel('Access token').fill(server.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page).toHaveURL(/\/nodes$/);
    await expect(page.getByRole('heading', { name: 'Nodes' })).toBeVisible();
    // The session survives a reload, and no script can read it.
    await page.reload();
    await expect(page.getByRole('heading', { name: 'Nodes' })).toBeVisible();
    expect(await page.evaluate(() => document.cookie)).toBe('');

    await page.getByRole('button', { name: /^Account of / }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await expect(page).toHaveURL(/\/login$/);
    await page.goto('/jobs');
    await expect(page).toHaveURL(/\/login$/);
  },
);

test('keeps two users apart', async ({ app, server, browser }) => {
  await server.call('POST', '/api/trainjob/create', job('of-the-first', script(1)));
  await app.goto('/jobs');
  await expect(app.getByRole('link', { name: 'of-the-first' })).toBeVisible();

  await app.goto('/settings');
  const users = app.getByRole('region', { name: 'Users' });
  await users.getByLabel('New user').fill('second');
  await users.getByRole('button', { name: 'Add' }).click();
  const token = await users.getByRole('alert').locator('code').innerText();

  const context = await browser.newContext({ baseURL: server.origin });
  const page = await context.newPage();
  const problems = watched(page);
  await signIn(page, token);
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'No jobs yet' })).toBeVisible();
  await page.goto('/jobs/default/of-the-first');
  await expect(page.getByRole('alert')).toBeVisible();
  await expect(page.getByRole('button', { name: 'Delete' })).toBeHidden();
  // Only administrators see users and set restarts.
  await page.goto('/settings');
  await expect(page.getByRole('heading', { name: 'Appearance' })).toBeVisible();
  await expect(page.getByRole('heading', { name: 'Users' })).toBeHidden();
  await page.goto('/runtimes');
  await expect(page.locator('[data-runtime]').first()).toBeVisible();
  await expect(page.getByLabel(/Maximum restarts/)).toHaveCount(0);
  expect(problems).toEqual([]);
  await context.close();
});

test('makes a token that works until it is revoked', async ({ app: page, browser, server }) => {
  await page.goto('/settings');
  const tokens = page.getByRole('region', { name: 'Access tokens' });
  await tokens.getByLabel('New token').fill('laptop');
  await tokens.getByRole('button', { name: 'Create' }).click();
  const token = await tokens.getByRole('alert').locator('code').innerText();

  const context = await browser.newContext({ baseURL: server.origin });
  const other = await context.newPage();
  await signIn(other, token);
  await other.goto('/nodes');
  await expect(other.getByRole('heading', { name: 'Nodes' })).toBeVisible();

  await tokens.getByRole('button', { name: 'Revoke laptop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await expect(page.locator('[data-record^=laptop]')).toHaveCount(0);
  await other.goto('/nodes');
  await expect(other).toHaveURL(/\/login$/);
  await context.close();
});
