import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from './fixtures';

test('runs a folder of code, shows its files, and clones it', async ({ app: page, server }) => {
  const folder = mkdtempSync(join(tmpdir(), 'astrago-folder-'));
  mkdirSync(join(folder, 'model'));
  mkdirSync(join(folder, '__pycache__'));
  writeFileSync(
    join(folder, 'train.py'),
    'from model.net import WORD\nprint("the word is", WORD, flush=True)\n',
  );
  writeFileSync(join(folder, 'model', 'net.py'), 'WORD = "다람쥐"\n');
  writeFileSync(join(folder, '__pycache__', 'old.pyc'), 'never code');
  try {
    await page.goto('/submit');
    await page.getByRole('radiogroup', { name: 'Where the code comes from' }).getByText('Folder').click();
    await page.locator('[data-folder]').setInputFiles(folder);
    await expect(page.locator('[data-drop-folder]')).toContainText('2 files');
    await expect(page.getByRole('combobox', { name: 'Script to start' })).toHaveValue('train.py');
    await page.getByRole('radiogroup', { name: 'Number of nodes' }).getByText('Single node').click();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('of-a-folder');
    await page.getByRole('textbox', { name: 'CPU Request', exact: true }).fill('0.1');
    await page.getByRole('button', { name: 'Submit', exact: true }).click();

    await expect(page).toHaveURL(/\/jobs\/default\/of-a-folder$/);
    await expect(page.getByRole('main').locator('[data-state=Complete]').first()).toBeVisible();
    await page.getByRole('tab', { name: 'Logs' }).click();
    await expect(page.getByRole('log')).toContainText('the word is 다람쥐');

    await page.getByRole('tab', { name: 'Code' }).click();
    await expect(page.getByRole('textbox', { name: 'train.py' })).toContainText('from model.net import WORD');
    await page.getByRole('button', { name: 'net.py' }).click();
    await expect(page.getByRole('textbox', { name: 'model/net.py' })).toContainText('다람쥐');
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download' }).click();
    expect((await download).suggestedFilename()).toBe('of-a-folder.tar.gz');

    await page.getByRole('button', { name: 'Clone' }).click();
    await expect(page.locator('[data-drop-folder]')).toContainText('2 files');
    await expect(page.getByRole('button', { name: 'Submit', exact: true })).toBeEnabled();
    await server.call('DELETE', '/api/trainjob/of-a-folder?namespace=default');
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('shows the script of a job that was given one, and says when there is none', async ({
  app: page,
  server,
}) => {
  await page.goto('/submit');
  await page.getByRole('radiogroup', { name: 'Where the code comes from' }).getByText('In the image').click();
  const submit = page.getByRole('button', { name: 'Submit', exact: true });
  await expect(submit).toBeDisabled();
  await page.getByRole('radiogroup', { name: 'Number of nodes' }).getByText('Single node').click();
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('of-the-image');
  await page.getByRole('textbox', { name: 'CPU Request', exact: true }).fill('0.1');
  await page.getByRole('textbox', { name: 'Command' }).fill('echo came with the image');
  await submit.click();
  await expect(page).toHaveURL(/\/jobs\/default\/of-the-image$/);
  await page.getByRole('tab', { name: 'Code' }).click();
  await expect(page.getByRole('heading', { name: 'No code is stored' })).toBeVisible();
  await page.getByRole('tab', { name: 'Logs' }).click();
  await expect(page.getByRole('log')).toContainText('came with the image');
  await server.call('DELETE', '/api/trainjob/of-the-image?namespace=default');
});
