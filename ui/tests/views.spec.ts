import { expect, expectAccessible, job, script, test } from './fixtures';

test('the list has the last loss as a number with its curve, and follows it', async ({
  app: page,
  server,
}) => {
  await server.call('POST', '/api/trainjob/create', job('has-loss', script(20, 0.05)));
  await server.call('POST', '/api/trainjob/create', job('has-none', 'print("hello")\n'));
  await page.goto('/jobs?q=has-');
  const row = page.locator('[data-job=has-loss]');
  await expect(row.locator('[data-state=Complete]')).toBeVisible();
  // 2.3 / (1 + 19 * 0.3)
  await expect(row.locator('[data-headline=loss]')).toContainText('0.3433');
  await expect(row.locator('[data-spark]')).toBeVisible();
  await expect(page.locator('[data-job=has-none] [data-state=Complete]')).toBeVisible();
  await expect(page.locator('[data-job=has-none] [data-headline]')).toHaveCount(0);
  for (const name of ['has-loss', 'has-none'])
    await server.call('DELETE', `/api/trainjob/${name}?namespace=default`);
});

test('the list names an exception and the worker it was on, with no request for each job', async ({
  app: page,
  server,
}) => {
  const code =
    'import os, time\nif os.environ["RANK"] == "1": raise ValueError("a bad batch")\ntime.sleep(600)\n';
  await server.call(
    'POST',
    '/api/trainjob/create',
    job('fails-on-one', code, { num_nodes: 2, max_restarts: 0 }),
  );
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await page.goto('/jobs?q=fails-on-one');
  await expect(page.locator('[data-job=fails-on-one]')).toContainText('ValueError: a bad batch on worker 1');
  expect(asked.filter((path) => path.startsWith('/api/trainjobs/fails'))).toEqual([]);
  await server.call('DELETE', '/api/trainjob/fails-on-one?namespace=default');
});

test('jobs stand in groups, and the address is the view', async ({ app: page, server }) => {
  const { token } = await server.call<{ token: string }>('POST', '/api/users', { name: 'grouped' });
  const own = { user_id: 'grouped', namespace: 'user-grouped' };
  await server.call('POST', '/api/trainjob/create', job('in-group-a', script(1), { suspend: true }));
  await server.call(
    'POST',
    '/api/trainjob/create',
    job('in-group-b', script(1), { ...own, suspend: true }),
    token,
  );
  await page.goto('/jobs?q=in-group');
  await page.getByRole('combobox', { name: 'Group by' }).click();
  await page.getByRole('option', { name: 'Owner' }).click();
  await expect(page).toHaveURL(/q=in-group&group=user$/);
  await expect(page.locator('[data-group]')).toHaveText([/^admin\s*1$/, /^grouped\s*1$/]);
  await page.goto('/jobs?q=in-group&group=state');
  await expect(page.locator('[data-group]')).toHaveText([/^Suspended\s*2$/]);
  await expectAccessible(page);

  // A filter that a link brought is seen, and can be taken away.
  await page.goto('/jobs?q=in-group&namespace=user-grouped');
  await expect(page.locator('[data-job]')).toHaveCount(1);
  await page.getByRole('button', { name: 'Stop filtering by user-grouped' }).click();
  await expect(page.locator('[data-job]')).toHaveCount(2);
  await server.call('DELETE', '/api/trainjob/in-group-a?namespace=default');
  await server.call('DELETE', '/api/trainjob/in-group-b?namespace=user-grouped');
  await server.call('DELETE', '/api/users/grouped');
});

test('a note and tags stay with a job, and it is found by them', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('is-noted', script(1), { suspend: true }));
  await page.goto('/jobs/default/is-noted');
  const notes = page.getByRole('region', { name: 'Notes' });
  await notes.getByRole('button', { name: 'Edit' }).click();
  await notes.getByLabel('Tags', { exact: true }).fill('sweep-7');
  await page.keyboard.press('Enter');
  await notes.getByRole('textbox', { name: 'Note', exact: true }).fill('Twice the batch,\nhalf the steps.');
  await expectAccessible(page);
  await notes.getByRole('button', { name: 'Save' }).click();
  await expect(notes.locator('[data-notes]')).toContainText('half the steps.');
  await page.reload();
  await notes.getByRole('link', { name: 'sweep-7' }).click();
  await expect(page).toHaveURL(/\/jobs\?tag=sweep-7$/);
  await expect(page.locator('[data-job=is-noted]')).toContainText('sweep-7');
  await expect(page.locator('[data-job]')).toHaveCount(1);
  await server.call('DELETE', '/api/trainjob/is-noted?namespace=default');
});

test('a job and what was made from it lead to each other', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('first-of-line', script(1), { suspend: true }));
  await page.goto('/jobs/default/first-of-line');
  await page.getByRole('button', { name: 'Restart' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Restart' }).click();
  await expect(page).not.toHaveURL(/first-of-line/);
  const again = new URL(page.url()).pathname.split('/').at(-1) ?? '';
  await page.locator('[data-fact=Repeats]').getByRole('link', { name: 'first-of-line' }).click();
  await expect(page.locator('[data-fact="Repeated as"]').getByRole('link', { name: again })).toBeVisible();

  await page.getByRole('button', { name: 'Clone' }).click();
  await expect(page.getByText('Filled in with the settings of first-of-line.')).toBeVisible();
  const name = page.getByRole('textbox', { name: 'Name', exact: true });
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('import time');
  await name.fill('second-of-line');
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page).toHaveURL(/second-of-line$/);
  await page.locator('[data-fact=Repeats]').getByRole('link', { name: 'first-of-line' }).click();
  await expect(page.locator('[data-fact="Repeated as"]').getByRole('link')).toHaveText([
    again,
    'second-of-line',
  ]);
  for (const one of ['first-of-line', again, 'second-of-line'])
    await server.call('DELETE', `/api/trainjob/${one}?namespace=default`);
});

test('a failure that its author must mend leads to the form with its code', async ({ app: page, server }) => {
  await server.call('POST', '/api/trainjob/create', job('has-a-slip', 'print("x"\n', { max_restarts: 0 }));
  await page.goto('/jobs/default/has-a-slip');
  const note = page.locator('[data-failure]');
  await expect(note).toContainText('A syntax error');
  await note.getByRole('link', { name: 'Change and run again' }).click();
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('print("x"');
  await server.call('DELETE', '/api/trainjob/has-a-slip?namespace=default');
});

test('no option of the command line is advised on the page', async ({ app: page, server }) => {
  const code = 'import no_such_module_at_all\n';
  await server.call('POST', '/api/trainjob/create', job('lacks-module', code, { max_restarts: 0 }));
  await page.goto('/jobs/default/lacks-module');
  const note = page.locator('[data-failure]');
  await expect(note).toContainText('Use an image or a Python environment that has the module.');
  await expect(note).not.toContainText('--');
  await server.call('DELETE', '/api/trainjob/lacks-module?namespace=default');
});

for (const [locale, words] of [
  ['en-US', { views: 'Views', name: 'Name of this view', save: 'Save', remove: 'Remove the view slow ones' }],
  ['ko-KR', { views: '저장된 보기', name: '이 보기의 이름', save: '저장', remove: 'slow ones 보기 삭제' }],
] as const) {
  test.describe(locale, () => {
    test.use({ locale, colorScheme: locale === 'ko-KR' ? 'dark' : 'light' });

    test('a view is saved under a name, and had again by it', async ({ app: page }) => {
      await page.goto('/jobs?sort=duration&page=2&state=Running');
      await page.locator('[data-views]').click();
      const views = page.getByRole('dialog', { name: new RegExp(`^${words.views}`) });
      await views.getByRole('textbox', { name: words.name }).fill('slow ones');
      await views.getByRole('button', { name: words.save }).click();
      await expect(views.getByRole('link', { name: 'slow ones' })).toHaveAttribute('aria-current', 'true');
      await expectAccessible(page);

      await page.goto('/jobs');
      await page.locator('[data-views]').click();
      // There is nothing in the address that could be saved.
      await views.getByRole('textbox', { name: words.name }).fill('everything');
      await expect(views.getByRole('button', { name: words.save })).toBeDisabled();
      await views.getByRole('link', { name: 'slow ones' }).click();
      await expect(page).toHaveURL(/\/jobs\?sort=duration&state=Running$/);
      await expect(page.locator('[data-views]')).toHaveText('slow ones');
      await page.locator('[data-views]').click();
      await views.getByRole('button', { name: words.remove }).click();
      await expect(page.locator('[data-views]')).toHaveText(words.views);
    });
  });
}

test('a job that asks for no size is said to have no limit', async ({ app: page, server }) => {
  await server.kube('POST', '/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs', {
    apiVersion: 'trainer.kubeflow.org/v1alpha1',
    kind: 'TrainJob',
    metadata: { name: 'has-no-size' },
    spec: { suspend: true, runtimeRef: { name: 'torch-distributed' }, trainer: { numNodes: 2 } },
  });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto('/jobs?q=has-no-size');
  await expect(page.locator('[data-job=has-no-size]')).toContainText('No limit');
  await page.goto('/jobs/default/has-no-size');
  await expect(page.locator('[data-fact="Per node"] dd')).toHaveText('No limit');
  await server.call('DELETE', '/api/trainjob/has-no-size?namespace=default');
});

test('details show the environment, volumes and command as they were typed, and no secrets', async ({
  app: page,
  server,
}) => {
  await server.call(
    'POST',
    '/api/trainjob/create',
    job('has-settings', script(1), {
      suspend: true,
      command: 'python3 -u /workspace/scripts/train.py --epochs 3',
      env_vars: [
        { name: 'BATCH', value: '64' },
        { name: 'HUB_TOKEN', value: 'hush-hush' },
      ],
      volumes: [{ name: 'shm', memory: '64Mi', mountPath: '/dev/shm' }],
    }),
  );
  await page.goto('/jobs/default/has-settings');
  await expect(page.locator('[data-fact="Environment variables"] dd')).toContainText('BATCH=64');
  await expect(page.locator('[data-fact=Volumes] dd')).toHaveText('/dev/shm ← 64Mi');
  await expect(page.locator('[data-fact=Command] dd')).toHaveText(
    'python3 -u /workspace/scripts/train.py --epochs 3',
  );
  await expect(page.getByText('hush-hush')).toHaveCount(0);
  await server.call('DELETE', '/api/trainjob/has-settings?namespace=default');
});

test('jobs that were found one after the other are compared', async ({ app: page, server }) => {
  for (const name of ['apple-tree', 'birch-tree'])
    await server.call('POST', '/api/trainjob/create', job(name, script(3, 0), { suspend: true }));
  await page.goto('/jobs?q=apple-tree');
  await page.getByRole('checkbox', { name: 'Select apple-tree' }).check();
  await page.getByRole('textbox', { name: 'Name, owner, tag or message' }).fill('birch-tree');
  await page.getByRole('checkbox', { name: 'Select birch-tree' }).check();
  const bar = page.getByRole('group', { name: '2 jobs selected' });
  await expect(bar).toContainText('1 of them is not in view');
  // What cannot be seen is not deleted unnoticed.
  await bar.getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByRole('dialog')).toContainText('1 of them is not in view.');
  await page.getByRole('dialog').getByText('Cancel').click();
  await bar.getByRole('link', { name: 'Compare' }).click();
  await expect(page.getByRole('columnheader').getByRole('link')).toHaveText(['apple-tree', 'birch-tree']);
  for (const name of ['apple-tree', 'birch-tree'])
    await server.call('DELETE', `/api/trainjob/${name}?namespace=default`);
});

test('three jobs are compared, and what sets them apart is marked', async ({ app: page, server }) => {
  for (const [index, batch] of ['32', '64', '64'].entries())
    await server.call(
      'POST',
      '/api/trainjob/create',
      job(`of-three-${index}`, script(3, 0), { env_vars: [{ name: 'BATCH', value: batch }] }),
    );
  const ids = [0, 1, 2].map((index) => `default/of-three-${index}`);
  for (const id of ids) {
    const name = id.split('/')[1] ?? '';
    const state = async () =>
      (await server.call<{ state: string }>('GET', `/api/trainjobs/${name}?namespace=default`)).state;
    await expect.poll(state).toBe('Complete');
  }
  await page.goto('/jobs?q=of-three');
  for (const index of [0, 1, 2])
    await page.getByRole('checkbox', { name: `Select of-three-${index}` }).check();
  await page.getByRole('link', { name: 'Compare' }).click();
  await expect(page.getByRole('columnheader').getByRole('link')).toHaveText(
    ids.map((id) => id.split('/')[1] ?? ''),
  );
  const batch = page.locator('tr[data-setting="$BATCH"]');
  await expect(batch).toHaveAttribute('data-differs', 'true');
  await expect(batch.getByRole('cell')).toHaveText(['32', '64', '64']);
  await expectAccessible(page);
  for (const index of [0, 1, 2])
    await server.call('DELETE', `/api/trainjob/of-three-${index}?namespace=default`);
});
