import { expect, expectAccessible, job, script, test } from './fixtures';

interface Machine {
  name: string;
  capacity: { cpu: number };
}

const FOREVER = 'import time\nprint("step 1/9 loss=2", flush=True)\ntime.sleep(600)\n';

test('a machine has a page: what it is, what it used, and what runs and ran there', async ({
  app: page,
  server,
}) => {
  const [machine] = await server.call<Machine[]>('GET', '/api/nodes');
  await server.call('POST', '/api/trainjob/create', job('ran-here', script(1, 0)));
  await server.call('POST', '/api/trainjob/create', job('ran-nowhere', script(1), { suspend: true }));
  const state = async () =>
    (await server.call<{ state: string }>('GET', '/api/trainjobs/ran-here?namespace=default')).state;
  await expect.poll(state).toBe('Complete');
  await page.goto('/nodes');
  await page
    .getByRole('link', { name: machine?.name ?? '', exact: true })
    .first()
    .click();
  await expect(page).toHaveTitle(`${machine?.name} · Astrago Trainer`);
  await expect(page.locator('[data-job=ran-here]')).toBeVisible();
  await expect(page.locator('[data-job=ran-nowhere]')).toHaveCount(0);
  await expect(page.locator('[data-usage=cpu] canvas')).toBeVisible({ timeout: 30_000 });
  await expectAccessible(page);

  // What was deleted ran here all the same.
  await server.call('DELETE', '/api/trainjob/ran-here?namespace=default');
  await expect(page.locator('[data-job=ran-here]')).toContainText('deleted');
  await page.goto('/nodes/no-such-machine');
  await expect(page.getByRole('heading', { name: 'There is no node no-such-machine' })).toBeVisible();
  await server.call('DELETE', '/api/trainjob/ran-nowhere?namespace=default');
});

for (const [locale, said] of [
  ['en-US', /PyTorch for any script, image and command/],
  ['ko-KR', /어떤 스크립트와 이미지, 명령에도 쓸 수 있는 PyTorch/],
] as const) {
  test.describe(locale, () => {
    test.use({ locale });

    test('every runtime says what it is for', async ({ app: page, server }) => {
      const all = await server.call<{ name: string }[]>('GET', '/api/runtimes');
      await page.goto('/runtimes');
      await expect(page.locator('[data-runtime]')).toHaveCount(all.length);
      const letters = locale === 'ko-KR' ? /[가-힣]{2}/ : /[a-z]{3}/;
      for (const { name } of all)
        await expect(page.locator(`[data-runtime="${name}"] p`).first()).toHaveText(letters);
      const card = page.locator('[data-runtime=pytorch-simple]');
      await expect(card).toContainText(said);
      await card.getByRole('link', { name: 'pytorch-simple', exact: true }).click();
      await expect(page).toHaveURL(/\/runtimes\/pytorch-simple$/);
      await expect(page.getByRole('main')).toContainText(said);
    });
  });
}

test('a runtime can be read and copied, and tells who uses it', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('uses-it', script(1), { suspend: true }));
  await page.goto('/runtimes/pytorch-simple');
  await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('kind: ClusterTrainingRuntime');
  await expect(page.locator('[data-uses=uses-it]')).toContainText('admin');
  await expectAccessible(page);

  await page.getByRole('button', { name: 'Make a copy' }).click();
  const dialog = page.getByRole('dialog', { name: 'Copy pytorch-simple' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('Not A Name');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await expect(dialog.getByRole('alert')).toContainText('lower-case letters');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('pytorch-mine');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await expect(page).toHaveURL(/\/runtimes\/pytorch-mine$/);
  await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('name: pytorch-mine');
  await expect(page.getByText('No job uses it at the moment.')).toBeVisible();
  // The framework keeps the runtime that it had.
  const { runtime } = await server.call<{ runtime: string }>(
    'GET',
    '/api/trainjobs/uses-it?namespace=default',
  );
  expect(runtime).toBe('pytorch-simple');
  await page.getByRole('link', { name: 'New job' }).last().click();
  await expect(page).toHaveURL(/runtime=pytorch-mine$/);

  await page.goto('/runtimes/no-such-runtime');
  await expect(page.getByRole('heading', { name: 'There is no runtime no-such-runtime' })).toBeVisible();
  await server.call('DELETE', '/api/trainjob/uses-it?namespace=default');
});

test('the queue shows what runs and what waits, and what it numbers first starts first', async ({
  app: page,
  server,
}) => {
  const [machine] = await server.call<Machine[]>('GET', '/api/nodes');
  const cpu = String(((machine?.capacity.cpu ?? 1) * 0.75).toFixed(2));
  const size = { cpu_request: cpu, cpu_limit: cpu };
  const make = (name: string, priority: number) =>
    server.call('POST', '/api/trainjob/create', job(name, FOREVER, { ...size, priority }));
  await make('holds-room', 0);
  await page.goto('/queue');
  await expect(page.locator('[data-holds=holds-room]')).toBeVisible();
  await make('waits-longer', 0);
  await make('goes-first', 10);
  const position = (name: string) => page.locator(`[data-queued=${name}]`).getByRole('cell').first();
  await expect(position('goes-first')).toHaveText('1');
  await expect(position('waits-longer')).toHaveText('2');
  await expect(page.locator('[data-queued=goes-first]')).toContainText('CPU');
  await expectAccessible(page);

  await server.call('DELETE', '/api/trainjob/holds-room?namespace=default');
  await expect(page.locator('[data-holds=goes-first]')).toBeVisible();
  await expect(page.locator('[data-queued=goes-first]')).toHaveCount(0);
  await expect(position('waits-longer')).toHaveText('1');
  for (const name of ['goes-first', 'waits-longer'])
    await server.call('DELETE', `/api/trainjob/${name}?namespace=default`);
});
