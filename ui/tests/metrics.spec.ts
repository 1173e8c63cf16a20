import { expect, job, test } from './fixtures';

const code = (scale: number) =>
  [
    'import os, time',
    'for step in range(40):',
    `    print(f"Epoch 1, Batch {step}/40, Loss: {${scale} / (1 + step):.4f}", flush=True)`,
    'time.sleep(120)',
    '',
  ].join('\n');

test('draws curves with their numbers, smooths them and compares jobs', async ({ app: page, server }) => {
  test.setTimeout(120_000);
  for (const [name, scale] of [
    ['compared-a', 4],
    ['compared-b', 2],
  ] as const)
    await server.call('POST', '/api/trainjob/create', job(name, code(scale), { num_nodes: 2 }));

  // The loss is on the overview already.
  await page.goto('/jobs/default/compared-a');
  await expect(page.getByRole('img', { name: 'loss' }).locator('canvas')).toBeVisible();
  await page.getByRole('link', { name: 'All curves' }).click();
  await expect(page).toHaveURL(/metrics$/);

  const chart = page.locator('[data-metric=loss]');
  // Workers that report the same do not hide each other: their mean first, each of them when asked for.
  await expect(chart.getByRole('button', { name: /^mean 0\.1/ })).toBeVisible();
  await page.getByRole('radiogroup', { name: 'Workers' }).getByText('All workers').click();
  await expect(chart.getByRole('button', { name: /#0 0\.1/ })).toBeVisible();
  await expect(chart.getByRole('button', { name: /#1 0\.1/ })).toBeVisible();
  // What the pointer is at is told in numbers.
  await chart.locator('.u-over').hover({ position: { x: 4, y: 60 } });
  await expect(chart).toContainText('Step 0');
  await chart.locator('.u-over').hover({ position: { x: 120, y: 60 } });
  await expect(chart).toContainText(/Step [1-9]/);

  // A line can be hidden by its name.
  await chart.getByRole('button', { name: /#1/ }).click();
  await expect(chart.getByRole('button', { name: /#1/ })).toHaveAttribute('aria-pressed', 'false');

  await page.getByRole('combobox', { name: 'Compare with' }).click();
  await page.getByRole('option', { name: 'compared-b' }).click();
  await page.keyboard.press('Escape');
  await expect(chart.getByRole('button', { name: /compared-a #0/ })).toBeVisible();
  await expect(chart.getByRole('button', { name: /compared-b #0 0\.05/ })).toBeVisible();

  const raw = await chart.getByRole('button', { name: /compared-a #0/ }).innerText();
  await page.getByRole('slider', { name: 'Smoothing' }).press('End');
  await expect(chart.getByRole('button', { name: /compared-a #0/ })).not.toHaveText(raw);

  // What the nodes used is measured and drawn as well.
  await expect(page.locator('[data-usage=cpu] canvas')).toBeVisible({ timeout: 40_000 });
  await expect(page.locator('[data-usage=memory] canvas')).toBeVisible();
  for (const name of ['compared-a', 'compared-b'])
    await server.call('DELETE', `/api/trainjob/${name}?namespace=default`);
});

test('dragging over a chart asks the server for that part, and a double click for all of it', async ({
  app: page,
  server,
}) => {
  const long = [
    'for start in range(0, 20000, 500):',
    '    print("\\n".join(f"step {n} loss={1 / (n + 1):.6g}" for n in range(start, start + 500)), flush=True)',
    '',
  ].join('\n');
  await server.call('POST', '/api/trainjob/create', job('is-zoomed', long));
  const state = async () =>
    (await server.call<{ state: string }>('GET', '/api/trainjobs/is-zoomed?namespace=default')).state;
  await expect.poll(state).toBe('Complete');
  await page.goto('/jobs/default/is-zoomed/metrics');
  const plot = page.locator('[data-metric=loss] .u-over');
  await expect(plot).toBeVisible();
  const asked = page.waitForResponse(/metrics\?.*from_step=/);
  const box = await plot.boundingBox();
  if (box === null) throw new Error('the chart has no size');
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.52, box.y + 60, { steps: 4 });
  await page.mouse.up();
  type Metrics = { points: { step: number }[] }[];
  const steps = ((await (await asked).json()) as Metrics)[0]?.points.map(({ step }) => step) ?? [];
  // In the whole there is a point for a hundred steps; of this part there are many more.
  expect(steps.length).toBeGreaterThan(50);
  expect(Math.max(...steps) - Math.min(...steps)).toBeLessThan(1_000);
  await plot.dblclick({ position: { x: 20, y: 60 } });
  await plot.hover({ position: { x: box.width - 8, y: 60 } });
  await expect(page.locator('[data-metric=loss]')).toContainText(/Step 19\d\d\d/);
  await server.call('DELETE', '/api/trainjob/is-zoomed?namespace=default');
});
