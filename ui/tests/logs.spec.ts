import { type Page } from '@playwright/test';

import { expect, job, test } from './fixtures';
import type { Server } from './server';

/** Prints many lines as fast as it can. */
function printer(lines: number): string {
  return [
    'import sys',
    `for start in range(0, ${lines}, 1000):`,
    '    sys.stdout.write("".join(f"line {n} of many\\n" for n in range(start, start + 1000)))',
    '',
  ].join('\n');
}

async function printed(server: Server, name: string, lines: number) {
  await server.call('POST', '/api/trainjob/create', job(name, printer(lines)));
  const search = `/api/trainjobs/${name}/logs/search?namespace=default&q=line%20${lines - 1}%20of`;
  await expect
    .poll(async () => (await server.call<{ hits: unknown[] }>('GET', search)).hits.length, {
      timeout: 90_000,
    })
    .toBe(1);
}

const lastSeen = (page: Page) =>
  page.evaluate(() => document.querySelector('[role=log]')?.lastElementChild?.lastElementChild?.textContent);

/** The longest time that the page was busy at one piece since this was installed. */
async function longestTask(page: Page): Promise<number> {
  return page.evaluate(() => (window as unknown as { longest: number }).longest);
}

const MANY = 1_000_000;

test('a million lines: opens at the end, searches all, jumps anywhere and never freezes', async ({
  app: page,
  server,
}) => {
  test.setTimeout(180_000);
  await printed(server, 'long-log', MANY);
  await page.addInitScript(() => {
    const told = window as unknown as { longest: number };
    told.longest = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) told.longest = Math.max(told.longest, entry.duration);
    }).observe({ type: 'longtask' });
  });
  await page.goto('/jobs/default/long-log/logs');
  const log = page.getByRole('log');
  await expect(log).toContainText(`line ${MANY - 1} of many`);
  await page.evaluate(() => ((window as unknown as { longest: number }).longest = 0));

  // Only what is in sight is in the page.
  expect(await page.locator('[role=log] [data-index]').count()).toBeLessThan(200);

  const search = page.getByRole('textbox', { name: 'Search in the log' });
  await search.fill('line 712345 of');
  await page.keyboard.press('Enter');
  await expect(page.locator('[data-hit]')).toContainText('line 712345 of many');
  await expect(page.getByRole('region', { name: 'Matches' })).toContainText(
    `1 match in ${MANY.toLocaleString('en')} lines`,
  );

  // Reading on from there, the next pages come by themselves, in order and without a jump.
  await log.hover();
  for (let step = 0; step < 40; step++) await page.mouse.wheel(0, 1500);
  await expect
    .poll(() => lastSeen(page).then((text) => Number(/line (\d+)/.exec(text ?? '')?.[1])))
    .toBeGreaterThan(714_000);
  const numbers = await page
    .locator('[role=log] [data-index]')
    .evaluateAll((rows) => rows.map((row) => Number(/line (\d+)/.exec(row.textContent)?.[1])));
  expect(numbers.every((n, i) => i === 0 || n === (numbers[i - 1] ?? 0) + 1)).toBe(true);

  await page.getByRole('button', { name: 'Go to the start' }).click();
  await expect(log).toContainText('line 0 of many');
  await page.getByRole('button', { name: 'Follow the end' }).click();
  await expect(log).toContainText(`line ${MANY - 1} of many`);

  const memory = await page.evaluate(
    () => (performance as unknown as { memory?: { usedJSHeapSize: number } }).memory?.usedJSHeapSize ?? 0,
  );
  expect(memory).toBeLessThan(150e6);
  // Generous: the machine of the tests trains, builds and serves at the same time.
  expect(await longestTask(page)).toBeLessThan(1000);
  await server.call('DELETE', '/api/trainjob/long-log?namespace=default');
});

test('does not jump while lines arrive, and follows again at the end', async ({ app: page, server }) => {
  const code =
    'import time\nfor n in range(100000):\n    print("tick", n, flush=True)\n    time.sleep(0.01)\n';
  await server.call('POST', '/api/trainjob/create', job('ticks', code));
  await page.goto('/jobs/default/ticks/logs');
  const log = page.getByRole('log');
  // Enough lines to scroll in, however many were there before the page was.
  await expect(log).toContainText(/tick ([2-9]\d\d|\d{4,})/);
  await log.hover();
  await page.mouse.wheel(0, -600);
  await expect(page.getByRole('button', { name: 'Follow the end' })).toHaveAttribute('aria-pressed', 'false');
  const first = () => page.locator('[role=log] [data-index]').first().textContent();
  const before = await first();
  const count = async () =>
    Number((await page.locator('[data-log-state] ~ p').innerText()).replace(/\D/g, ''));
  const counted = await count();
  await expect.poll(count).toBeGreaterThan(counted + 50);
  expect(await first()).toBe(before);
  await page.getByRole('button', { name: 'Follow the end' }).click();
  await expect
    .poll(() => lastSeen(page).then((text) => Number(/tick (\d+)/.exec(text ?? '')?.[1])))
    .toBeGreaterThan(counted);
  await server.call('DELETE', '/api/trainjob/ticks?namespace=default');
});

test('merges workers in order of time, shows colours, and searches with patterns', async ({
  app: page,
  server,
}) => {
  const code = [
    'import os, time',
    'rank = int(os.environ["RANK"])',
    'for n in range(6):',
    '    time.sleep(0.2)',
    '    print(f"\\033[31mstep\\033[0m {n} rank {rank}", flush=True)',
    'print("10%\\r50%\\r100% loaded", flush=True)',
    '',
  ].join('\n');
  await server.call('POST', '/api/trainjob/create', job('colours', code, { num_nodes: 2 }));
  await page.goto('/jobs/default/colours/logs');
  const log = page.getByRole('log');
  await expect(log).toContainText('100% loaded');
  await expect(log).not.toContainText('50%');
  await expect(log.locator('span', { hasText: /^step$/ }).first()).toHaveCSS('color', 'rgb(165, 17, 17)');

  await page.getByRole('button', { name: 'Regular expression' }).click();
  await page.getByRole('textbox', { name: 'Search in the log' }).fill('STEP [23] rank [01]$');
  await expect(page.getByRole('region', { name: 'Matches' })).toContainText('4 matches');
  await page.getByRole('button', { name: 'Match case' }).click();
  await expect(page.getByRole('region', { name: 'Matches' })).toContainText('0 matches');
  await page.getByRole('textbox', { name: 'Search in the log' }).fill('(');
  await expect(page.getByText('Not a valid regular expression')).toBeVisible();

  // One worker alone, by its address.
  await page.goto('/jobs/default/colours/logs?worker=1');
  await expect(log).toContainText('rank 1');
  await expect(log).not.toContainText('rank 0');
});
