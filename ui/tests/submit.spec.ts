import type { Page } from '@playwright/test';

import { expect, script, test } from './fixtures';

const COMMAND = 'python3 /workspace/scripts/train.py';

async function amount(page: Page, label: string, value: string) {
  await page.getByRole('textbox', { name: label, exact: true }).fill(value);
}

test(
  'submits, watches, reads logs, sees the curve, clones and deletes',
  { tag: '@cluster' },
  async ({ app: page }) => {
    await page.goto('/submit');
    await page.getByRole('radio', { name: 'PyTorch' }).click();
    await page.getByRole('textbox', { name: 'Nodes' }).fill('2');
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('from-the-page');
    await page.getByRole('textbox', { name: 'train.py' }).fill(script(30, 0.1));
    await page.getByRole('textbox', { name: 'Command' }).fill(COMMAND);
    await amount(page, 'CPU Request', '0.1');
    await amount(page, 'Memory (GiB) Request', '0.1');
    await expect(page.locator('[data-fit=fits_now]')).toBeVisible();
    await page.getByRole('button', { name: 'Submit', exact: true }).click();

    await expect(page).toHaveURL(/\/jobs\/default\/from-the-page$/);
    const state = page.getByRole('main').locator('[data-state]').first();
    await expect(state).toHaveText('Running');
    await expect(page.locator('[data-worker]')).toHaveCount(2);

    await page.getByRole('tab', { name: 'Logs' }).click();
    const log = page.getByRole('log');
    await expect(log).toContainText('Epoch 1, Batch 3/30');
    await expect(log).toContainText('done');
    await expect(state).toHaveText('Complete');
    await page.getByRole('textbox', { name: 'Search in the log' }).fill('Batch 7/');
    await page.keyboard.press('Enter');
    await expect(page.locator('[data-hit]')).toContainText('Batch 7/30');

    await page.getByRole('tab', { name: 'Metrics' }).click();
    await expect(page.locator('[data-metric=loss] canvas')).toBeVisible();
    await expect(page.locator('[data-metric=loss]')).toContainText('mean');

    await page.getByRole('tab', { name: 'Events' }).click();
    await expect(page.getByRole('row').nth(1)).toBeVisible();
    await page.getByRole('tab', { name: 'Advanced' }).click();
    await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('kind: TrainJob');

    await page.getByText('Pods', { exact: true }).click();
    await expect(page.getByRole('textbox', { name: 'Pods' })).toContainText('kind: Pod');

    await page.getByRole('button', { name: 'Clone' }).click();
    await expect(page.getByRole('textbox', { name: 'Command' })).toHaveValue(COMMAND);
    await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('Epoch 1');
    await page.goBack();

    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await expect(page).toHaveURL(/\/jobs$/);
    await expect(page.locator('[data-job=from-the-page]')).toHaveCount(0);
  },
);

test('shows what will be made and says what is wrong while one types', async ({ app: page }) => {
  await page.goto('/submit');
  const submit = page.getByRole('button', { name: 'Submit', exact: true });
  await expect(submit).toBeDisabled();
  await page.getByRole('textbox', { name: 'train.py' }).fill('print(1)');
  await page.getByRole('button', { name: 'Show the YAML' }).click();
  await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('kind: TrainJob');
  await page.getByText('Pods', { exact: true }).click();
  const pods = page.getByRole('textbox', { name: 'Pods' });
  await expect(pods).toContainText('kind: Pod');
  await expect(pods).toContainText('# ');

  const name = page.getByRole('textbox', { name: 'Name', exact: true });
  await name.fill('Not A Name');
  await expect(name).toHaveAttribute('aria-invalid', 'true');
  await name.fill('a-name');
  await expect(name).not.toHaveAttribute('aria-invalid', 'true');

  await amount(page, 'CPU Request', '500');
  await expect(page.locator('[data-fit=never_fits]')).toBeVisible();
  await page.getByRole('button', { name: 'Reset' }).click();
  await expect(submit).toBeDisabled();
});

test('takes a template, and the last job again', async ({ app: page }) => {
  await page.goto('/submit');
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: /TensorFlow example/ }).click();
  await expect(page.getByRole('radio', { name: 'TensorFlow' })).toBeChecked();
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('TensorFlow');

  await page.getByRole('radio', { name: 'PyTorch' }).click();
  await page.getByRole('textbox', { name: 'train.py' }).fill('print("the last one")');
  await page.getByRole('textbox', { name: 'Command' }).fill(COMMAND);
  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page).toHaveURL(/\/jobs\/default\//);
  await page.goto('/submit');
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: 'My last job again' }).click();
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('the last one');
});

test('sizes Horovod’s launcher and workers apart', async ({ app: page, server }) => {
  await page.goto('/submit');
  await page.getByRole('radio', { name: 'Horovod' }).click();
  const launcher = page.getByRole('region', { name: 'Launcher' });
  await expect(launcher).toBeVisible();
  await page.getByRole('textbox', { name: 'Workers' }).fill('2');
  await amount(page, 'Launcher CPU Amount', '0.2');
  await amount(page, 'Launcher memory (GiB) Amount', '0.25');
  await amount(page, 'CPU Request', '0.1');
  await amount(page, 'Memory (GiB) Request', '0.1');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('with-launcher');
  await page.getByRole('textbox', { name: 'train.py' }).fill('print("from the launcher", flush=True)');
  await page.getByRole('textbox', { name: 'Command' }).fill(COMMAND);

  await page.getByRole('button', { name: 'Show the YAML' }).click();
  await page.getByText('Pods', { exact: true }).click();
  await page.getByRole('combobox', { name: 'Kind of pod' }).click();
  await expect(page.getByRole('option', { name: 'node: 2 pods' })).toBeVisible();
  await page.getByRole('option', { name: 'launcher: 1 pod' }).click();
  await expect(page.getByText(/Each needs 0.2 CPU · 256 MiB/)).toBeVisible();

  await page.getByRole('button', { name: 'Submit', exact: true }).click();
  await expect(page).toHaveURL(/\/jobs\/default\/with-launcher$/);
  await expect(page.getByRole('link', { name: 'Launcher', exact: true })).toBeVisible();
  await server.call('DELETE', '/api/trainjob/with-launcher?namespace=default');
});

test('takes a dropped file, a new volume and variables, and shows mistakes at their row', async ({
  app: page,
}) => {
  await page.goto('/submit');
  const file = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(['print("dropped")\n'], 'mine.py', { type: 'text/x-python' }));
    return data;
  });
  await page.locator('[data-drop]').dispatchEvent('drop', { dataTransfer: file });
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('dropped');

  await page.getByRole('button', { name: 'Volumes', exact: true }).click();
  await page.getByRole('button', { name: 'New volume claim' }).click();
  await page.getByRole('textbox', { name: 'Name of the claim' }).fill('page-data');
  await page.getByRole('button', { name: 'Create' }).click();
  await expect(page.getByRole('textbox', { name: 'Mount path' })).toHaveValue('/mnt/page-data');
  await page.getByRole('textbox', { name: 'Mount path' }).fill('relative');
  await expect(page.getByRole('textbox', { name: 'Mount path' })).toHaveAttribute('aria-invalid', 'true');
  await page.getByRole('textbox', { name: 'Mount path' }).fill('/data');

  await page.getByRole('button', { name: 'Environment variables' }).click();
  await page.getByRole('button', { name: 'Add a variable' }).click();
  const variable = page.getByRole('textbox', { name: 'Name', exact: true }).last();
  await variable.fill('9LIVES');
  await expect(variable).toHaveAttribute('aria-invalid', 'true');
  await variable.fill('LIVES');
  await expect(variable).not.toHaveAttribute('aria-invalid', 'true');

  // A limit below its request is said where it is.
  await amount(page, 'CPU Limit', '0.5');
  await expect(page.getByRole('textbox', { name: 'CPU Request', exact: true })).toHaveAttribute(
    'aria-invalid',
    'true',
  );
});

test('is submitted with the keyboard alone', async ({ app: page }) => {
  await page.goto('/submit');
  await page.getByRole('radio', { name: 'PyTorch' }).waitFor();
  const reach = async (done: () => Promise<boolean>) => {
    for (let step = 0; step < 60; step++) {
      if (await done()) return;
      await page.keyboard.press('Tab');
    }
    throw new Error('not reached with Tab');
  };
  const focused = (label: string) => async () =>
    page.evaluate((wanted) => {
      const element = document.activeElement;
      const own = element?.getAttribute('aria-label') ?? element?.textContent ?? '';
      const labels = element instanceof HTMLInputElement ? [...(element.labels ?? [])] : [];
      return own === wanted || labels.some((one) => one.textContent === wanted);
    }, label);
  await reach(focused('Name'));
  await page.keyboard.type('by-keyboard');
  await reach(focused('train.py'));
  await page.keyboard.insertText('print("hello from the keyboard", flush=True)');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab');
  await page.keyboard.type(COMMAND);
  await reach(focused('CPU Request'));
  await page.keyboard.press('Control+a');
  await page.keyboard.type('0.1');
  await reach(focused('Submit'));
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/\/jobs\/default\/by-keyboard$/);
  await expect(page.getByRole('main').locator('[data-state=Complete]').first()).toBeVisible();
});
