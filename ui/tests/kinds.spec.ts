import { existsSync } from 'node:fs';

import { expect, test } from './fixtures';

test('lists and opens jobs of the Training Operator v1', async ({ app: page, server }) => {
  // The job is complete with its master, whatever the worker does: the master takes longer.
  const replica = (text: string, seconds: number) => ({
    replicas: 1,
    restartPolicy: 'OnFailure',
    template: {
      spec: {
        containers: [
          {
            name: 'pytorch',
            image: 'any',
            command: ['python3', '-c', `import time; print("${text}", flush=True); time.sleep(${seconds})`],
            resources: { requests: { cpu: '100m', memory: '64Mi' } },
          },
        ],
      },
    },
  });
  await server.call('POST', '/api/apply?namespace=default', {
    apiVersion: 'kubeflow.org/v1',
    kind: 'PyTorchJob',
    metadata: { name: 'of-old', namespace: 'default' },
    spec: { pytorchReplicaSpecs: { Master: replica('the master', 4), Worker: replica('a worker', 0) } },
  });
  await page.goto('/jobs');
  const row = page.locator('[data-job=of-old]');
  await expect(row).toContainText('PyTorchJob');
  await expect(row.locator('[data-state=Complete]')).toBeVisible();
  await row.getByRole('link', { name: 'of-old' }).click();
  await expect(page.getByRole('main').getByText('PyTorchJob', { exact: true }).first()).toBeVisible();
  await expect(page.locator('[data-worker]')).toHaveCount(2);
  await page.getByRole('tab', { name: 'Logs' }).click();
  await expect(page.getByRole('log')).toContainText('the master');
  await expect(page.getByRole('log')).toContainText('a worker');
  await page.getByRole('tab', { name: 'Advanced' }).click();
  await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('kind: PyTorchJob');
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(page.locator('[data-job=of-old]')).toHaveCount(0);
});

test('trains with Horovod’s form from its template, over mpirun', async ({ app: page, server }) => {
  const missing = ['/usr/bin/mpirun', '/usr/sbin/sshd'].filter((path) => !existsSync(path));
  if (process.env['CI'] === undefined) test.skip(missing.length > 0, `needs ${missing.join(', ')}`);
  test.setTimeout(180_000);
  await page.goto('/submit');
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: /Horovod example/ }).click();
  await expect(page.getByRole('radio', { name: 'Horovod' })).toBeChecked();
  await expect(page.getByRole('region', { name: 'Launcher' })).toBeVisible();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('digits-over-mpi');
  await expect(page.locator('[data-fit=fits_now]')).toBeVisible();
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page).toHaveURL(/\/jobs\/default\/digits-over-mpi$/);
  await expect(page.getByRole('link', { name: 'Launcher', exact: true })).toBeVisible();
  await expect(page.getByRole('main').locator('[data-state=Complete]').first()).toBeVisible({
    timeout: 120_000,
  });
  // Its workers end with the launcher, and are not forgotten.
  await expect(page.locator('[data-worker]')).toHaveCount(3);
  await page.getByRole('tab', { name: 'Logs' }).click();
  await expect(page.getByRole('log')).toContainText(/accuracy/i);
  await server.call('DELETE', '/api/trainjob/digits-over-mpi?namespace=default');
});
