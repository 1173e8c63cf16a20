import { readdirSync, readFileSync } from 'node:fs';

import { expect, job, script, test } from './fixtures';

/** Processes of this machine whose command line ends with the word. */
function processes(word: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const words = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').filter(Boolean);
        return words.at(-1) === word && words[0]?.includes('python') === true;
      } catch {
        return false;
      }
    })
    .map(Number);
}

test('starts again after a worker is killed, and keeps the log of the attempt before', async ({
  app: page,
  server,
}) => {
  const mark = `killed-${process.pid}`;
  const code = 'import time\nprint("it lives", flush=True)\ntime.sleep(600)\n';
  const command = `python3 /workspace/scripts/train.py ${mark}`;
  await server.call('POST', '/api/trainjob/create', job('killed', code, { command, max_restarts: 3 }));
  await page.goto('/jobs/default/killed/logs');
  await expect(page.getByRole('log')).toContainText('it lives');
  const [pid] = processes(mark);
  expect(pid).toBeDefined();
  process.kill(pid ?? 0, 'SIGKILL');
  await expect.poll(() => processes(mark).some((one) => one !== pid), { timeout: 30_000 }).toBe(true);

  await page.getByRole('tab', { name: 'Overview' }).click();
  await expect(page.locator('[data-fact=Restarts] dd')).toHaveText('1 / 3');
  await page.getByRole('tab', { name: 'Logs' }).click();
  await page.getByRole('combobox', { name: 'Attempt' }).click();
  await page.getByRole('option', { name: /^Attempt 1,/ }).click();
  await expect(page).toHaveURL(/attempt=1/);
  await expect(page.getByRole('log')).toContainText('it lives');
  await server.call('DELETE', '/api/trainjob/killed?namespace=default');
});

test('says in plain words why a job failed', async ({ app: page, server }) => {
  await server.call(
    'POST',
    '/api/trainjob/create',
    job('fails', 'import no_such_module_at_all\n', { max_restarts: 0 }),
  );
  await page.goto('/jobs/default/fails');
  const note = page.getByRole('alert').filter({ hasText: 'A Python module is missing' });
  await expect(note).toContainText('no_such_module_at_all');
});

test('says why a job waits; suspends, resumes and deletes several', async ({ app: page, server }) => {
  for (const name of ['waits-a', 'waits-b']) {
    await server.call(
      'POST',
      '/api/trainjob/create',
      job(name, script(1), { cpu_request: '900', cpu_limit: '900' }),
    );
  }
  await page.goto('/jobs/default/waits-a');
  await expect(page.locator('[data-waiting=never]')).toContainText('900');
  await page.getByRole('button', { name: 'Suspend' }).click();
  await expect(page.getByRole('main').locator('[data-state=Suspended]').first()).toBeVisible();
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect(page.getByRole('main').locator('[data-state=Pending]').first()).toBeVisible();

  await page.goto('/jobs?q=waits-');
  await expect(page.locator('[data-job]')).toHaveCount(2);
  await page.getByRole('checkbox', { name: 'Select all' }).check();
  await page.getByRole('button', { name: 'Suspend' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Suspend' }).click();
  await expect(page.locator('[data-job] [data-state=Suspended]')).toHaveCount(2);
  await page.getByRole('checkbox', { name: 'Select all' }).check();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(page.getByRole('heading', { name: 'No job matches' })).toBeVisible();
});

test('lists jobs as they come, filters them and goes back', async ({ app: page, server }) => {
  await page.goto('/jobs');
  await expect(page.getByRole('heading', { name: 'Jobs', exact: true })).toBeVisible();
  await server.call('POST', '/api/trainjob/create', job('comes-later', script(1)));
  const row = page.locator('[data-job=comes-later]');
  await expect(row).toBeVisible();
  await expect(row.locator('[data-state=Complete]')).toBeVisible();

  await page.keyboard.press('/');
  await page.keyboard.type('comes-l');
  await expect(page.locator('[data-job]')).toHaveCount(1);
  await expect(page).toHaveURL(/q=comes-l$/);
  await page.getByRole('link', { name: 'comes-later' }).click();
  await expect(page).toHaveURL(/comes-later$/);
  await page.goBack();
  await expect(page.getByRole('textbox', { name: /Name, owner/ })).toHaveValue('comes-l');
});
