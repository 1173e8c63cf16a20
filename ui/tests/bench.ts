import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import type { Page } from '@playwright/test';

import { expect, job, test } from './fixtures';
import type { Server } from './server';

/**
 * How fast the page is, in Chromium against a real server: `npm run bench`, best with a release binary in ASTRAGO_BINARY.
 * JOBS and LINES make it smaller.
 */
const JOBS = Number(process.env['JOBS'] ?? 10_000);
const LINES = Number(process.env['LINES'] ?? 1_000_000);

const results: Record<string, Record<string, number>> = {};

test.afterAll(() => {
  const text = JSON.stringify({ cpus: cpus().length, jobs: JOBS, lines: LINES, results }, null, 2);
  writeFileSync(process.env['BENCH_OUT'] ?? 'test-results/bench.json', text);
  process.stdout.write(`${text}\n`);
});

/** Counts what keeps the page from answering, from the start of every document. */
async function watch(page: Page) {
  await page.addInitScript(() => {
    const told = window as unknown as { tasks: number[] };
    told.tasks = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) told.tasks.push(entry.duration);
    }).observe({ type: 'longtask', buffered: true });
  });
}

async function tasks(page: Page) {
  const all = await page.evaluate(() => (window as unknown as { tasks: number[] }).tasks);
  return { longTasks: all.length, longestTask: Math.round(Math.max(0, ...all)) };
}

/** As Lighthouse counts: first paint, and when the content that was asked for can be used. */
async function load(page: Page, path: string, seen: string) {
  const begun = Date.now();
  await page.goto(path);
  await expect(page.locator(seen).first()).toBeVisible({ timeout: 60_000 });
  const interactive = Date.now() - begun;
  const numbers = await page.evaluate(() => {
    const resources = performance.getEntriesByType('resource') as PerformanceResourceTiming[];
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    return {
      firstContentfulPaint: Math.round(paint?.startTime ?? 0),
      transferred: resources.reduce((sum, one) => sum + one.transferSize, 0),
    };
  });
  return { ...numbers, interactive, ...(await tasks(page)) };
}

async function inParallel<T>(items: T[], work: (item: T) => Promise<unknown>) {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

test('first load', async ({ app: page }) => {
  await watch(page);
  results['first load'] = await load(page, '/jobs', 'h2');
  results['second load'] = await load(page, '/jobs', 'h2');
});

test('a list of many jobs', async ({ app: page, server }) => {
  test.setTimeout(1_800_000);
  const names = Array.from({ length: JOBS }, (_, n) => `many-${n}`);
  await inParallel(names, (name) =>
    server.call('POST', '/api/trainjob/create', job(name, 'print(1)', { suspend: true })),
  );
  await watch(page);
  results['list'] = await load(page, '/jobs', '[data-job]');
  const begun = Date.now();
  await page.locator('[data-search]').fill('many-77');
  await expect(page.locator('[data-job=many-77]')).toBeVisible();
  await expect(page.locator('[data-job=many-1]')).toHaveCount(0);
  results['search the list'] = { milliseconds: Date.now() - begun, ...(await tasks(page)) };
  const sorted = Date.now();
  await page.goto('/jobs?sort=name');
  await expect(page.locator('[data-job=many-0]')).toBeVisible();
  results['sort the list'] = { milliseconds: Date.now() - sorted };
});

test('a log of many lines', async ({ app: page, server }) => {
  test.setTimeout(1_800_000);
  await recorded(server);
  await watch(page);
  results['log, at its end'] = await load(page, '/jobs/default/printed/logs', '[role=log] [data-index]');
  await expect(page.getByRole('log')).toContainText(`line ${LINES - 1} of many`);
  const begun = Date.now();
  await page.getByRole('textbox', { name: 'Search in the log' }).fill(`line ${Math.floor(LINES / 2)} of`);
  await page.keyboard.press('Enter');
  await expect(page.locator('[data-hit]')).toBeVisible({ timeout: 60_000 });
  results['search the log and go there'] = { milliseconds: Date.now() - begun };
  await page.getByRole('log').hover();
  const scrolled = Date.now();
  for (let step = 0; step < 300; step++) await page.mouse.wheel(0, 2000);
  const frames = await page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        let count = 0;
        const until = performance.now() + 1000;
        const frame = () => {
          count++;
          if (performance.now() < until) requestAnimationFrame(frame);
          else resolve(count);
        };
        requestAnimationFrame(frame);
      }),
  );
  const memory = await page.evaluate(
    () => (performance as unknown as { memory?: { usedJSHeapSize: number } }).memory?.usedJSHeapSize ?? 0,
  );
  results['read on through the log'] = {
    milliseconds: Date.now() - scrolled,
    framesPerSecond: frames,
    heapMegabytes: Math.round(memory / 1e6),
    ...(await tasks(page)),
  };
});

async function recorded(server: Server) {
  const code = [
    'import sys',
    `for start in range(0, ${LINES}, 1000):`,
    '    sys.stdout.write("".join(f"line {n} of many\\n" for n in range(start, start + 1000)))',
    '',
  ].join('\n');
  await server.call('POST', '/api/trainjob/create', job('printed', code));
  const path = `/api/trainjobs/printed/logs/search?namespace=default&q=line%20${LINES - 1}%20of`;
  await expect
    .poll(async () => (await server.call<{ hits: unknown[] }>('GET', path)).hits.length, {
      timeout: 1_500_000,
      intervals: [2_000],
    })
    .toBe(1);
}
