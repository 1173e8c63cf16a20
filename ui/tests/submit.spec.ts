import type { Page } from '@playwright/test';

import { expect, script, test } from './fixtures';

const COMMAND = 'python3 /workspace/scripts/train.py';

async function amount(page: Page, label: string, value: string) {
  await page.getByRole('textbox', { name: label, exact: true }).fill(value);
}

test('submits, watches, reads logs, sees the curve, clones and deletes', async ({ app: page }) => {
  await page.goto('/submit');
  await page.getByRole('radio', { name: 'PyTorch' }).click();
  await page.getByRole('textbox', { name: 'Nodes' }).fill('2');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('from-the-page');
  await page.getByRole('textbox', { name: 'train.py' }).fill(script(30, 0.1));
  await page.getByRole('textbox', { name: 'Command' }).fill(COMMAND);
  await amount(page, 'CPU Request', '0.1');
  await amount(page, 'Memory (GB) Request', '0.1');
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
  await expect(page.locator('[data-metric=loss]')).toContainText('#1');

  await page.getByRole('tab', { name: 'Events' }).click();
  await expect(page.getByRole('row').nth(1)).toBeVisible();
  await page.getByRole('tab', { name: 'YAML' }).click();
  await expect(page.getByRole('textbox', { name: 'YAML' })).toContainText('kind: TrainJob');

  await page.getByRole('button', { name: 'Clone' }).click();
  await expect(page.getByRole('textbox', { name: 'Command' })).toHaveValue(COMMAND);
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('Epoch 1');
  await page.goBack();

  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await expect(page).toHaveURL(/\/jobs$/);
  await expect(page.locator('[data-job=from-the-page]')).toHaveCount(0);
});

test('shows what will be made and says what is wrong while one types', async ({ app: page }) => {
  await page.goto('/submit');
  const submit = page.getByRole('button', { name: 'Submit', exact: true });
  await expect(submit).toBeDisabled();
  await page.getByRole('textbox', { name: 'train.py' }).fill('print(1)');
  await expect(page.getByRole('textbox', { name: 'Preview' })).toContainText('kind: TrainJob');
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

test('takes a template, and calls Horovod’s nodes workers', async ({ app: page }) => {
  await page.goto('/submit');
  await page.getByRole('button', { name: 'Templates' }).click();
  await page.getByRole('menuitem', { name: 'TensorFlow example' }).click();
  await expect(page.getByRole('radio', { name: 'TensorFlow' })).toBeChecked();
  await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('TensorFlow');
  await page.getByRole('radio', { name: 'Horovod' }).click();
  await expect(page.getByRole('textbox', { name: 'Workers' })).toBeVisible();
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
