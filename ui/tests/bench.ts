import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import { gzipSync } from 'node:zlib';

import type { Page, Response } from '@playwright/test';

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

interface Told {
  /** Each long task: when it began and how long it took. */
  tasks: [number, number][];
  paint: number;
  shift: number;
  frames: number[];
  sampling: boolean;
}

/** Listens from the start of every document: what is painted, what moves, what keeps the page from answering. */
async function watch(page: Page) {
  await page.addInitScript(() => {
    const told: Told = { tasks: [], paint: 0, shift: 0, frames: [], sampling: false };
    (window as unknown as { told: Told }).told = told;
    const observe = (type: string, take: (entry: PerformanceEntry) => void) =>
      new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
    observe('longtask', (entry) => told.tasks.push([entry.startTime, entry.duration]));
    observe('largest-contentful-paint', (entry) => (told.paint = entry.startTime));
    observe('layout-shift', (entry) => {
      const { value, hadRecentInput } = entry as unknown as { value: number; hadRecentInput: boolean };
      if (!hadRecentInput) told.shift += value;
    });
    let before = performance.now();
    const frame = (now: number) => {
      if (told.sampling) told.frames.push(now - before);
      before = now;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
}

async function tasks(page: Page) {
  const all = await page.evaluate(() => (window as unknown as { told: Told }).told.tasks);
  const durations = all.map(([, duration]) => duration);
  return { longTasks: all.length, longestTask: Math.round(Math.max(0, ...durations)) };
}

/**
 * As Lighthouse counts: first and largest paint, when the page answers (its last long task is over), how long it was
 * kept from answering in all, how much moved, and what came over the wire.
 */
async function load(page: Page, path: string, seen: string) {
  let zipped = 0;
  const bodies: Promise<unknown>[] = [];
  const count = (response: Response) => {
    if (new URL(response.url()).pathname.startsWith('/api/')) return;
    bodies.push(
      response.body().then(
        (body) => (zipped += gzipSync(body).length),
        () => undefined,
      ),
    );
  };
  page.on('response', count);
  const begun = Date.now();
  await page.goto(path);
  await expect(page.locator(seen).first()).toBeVisible({ timeout: 60_000 });
  const seenAfter = Date.now() - begun;
  // The page always listens to the server: idle is when it has nothing left to do itself.
  await page.evaluate(() => new Promise((resolve) => requestIdleCallback(resolve, { timeout: 5_000 })));
  const numbers = await page.evaluate(() => {
    const { tasks, paint, shift } = (window as unknown as { told: Told }).told;
    const resources = performance.getEntriesByType('resource') as PerformanceResourceTiming[];
    const [document] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
    const first = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0;
    return {
      firstContentfulPaint: Math.round(first),
      largestContentfulPaint: Math.round(paint),
      timeToInteractive: Math.round(Math.max(first, ...tasks.map(([start, duration]) => start + duration))),
      totalBlockingTime: Math.round(
        tasks.filter(([start]) => start >= first).reduce((sum, [, duration]) => sum + duration - 50, 0),
      ),
      cumulativeLayoutShift: Number(shift.toFixed(4)),
      wireBytes: resources.reduce((sum, one) => sum + one.transferSize, document?.transferSize ?? 0),
    };
  });
  await Promise.all(bodies);
  page.off('response', count);
  return { seenAfter, ...numbers, assetsGzipBytes: zipped, ...(await tasks(page)) };
}

/** How evenly the page is drawn while something is done, in milliseconds from frame to frame. */
async function frames(page: Page, work: () => Promise<void>) {
  await page.evaluate(() => {
    const { told } = window as unknown as { told: Told };
    told.frames = [];
    told.sampling = true;
  });
  await work();
  const all = await page.evaluate(() => {
    const { told } = window as unknown as { told: Told };
    told.sampling = false;
    return told.frames.toSorted((a, b) => a - b);
  });
  const at = (part: number) => Math.round(all[Math.floor((all.length - 1) * part)] ?? 0);
  return { frames: all.length, frameMedian: at(0.5), frame95: at(0.95), frameLongest: at(1) };
}

async function inParallel<T>(items: T[], work: (item: T) => Promise<unknown>) {
  const waiting = [...items];
  const worker = async () => {
    for (let item = waiting.pop(); item !== undefined; item = waiting.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

test('first load', async ({ app: page }) => {
  test.setTimeout(180_000);
  await watch(page);
  results['first load'] = await load(page, '/jobs', 'h2');
  results['second load'] = await load(page, '/jobs', 'h2');
  results['the form'] = await load(page, '/submit', '.cm-content');
});

const JOBS_PATH = '/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs';

/** A job that waits to be resumed. The n-th comes after those before it. */
const many = (n: number) => ({
  apiVersion: 'trainer.kubeflow.org/v1alpha1',
  kind: 'TrainJob',
  metadata: { name: `many-${n}` },
  spec: { suspend: true, runtimeRef: { name: 'torch-distributed' }, trainer: { numNodes: 1 } },
});

/** All of them, and the controllers have seen each. */
async function seed(server: Server) {
  const total = async () =>
    (await server.call<{ total: number }>('GET', '/api/trainjobs?limit=1&state=Suspended')).total;
  const there = await total();
  await inParallel([...Array(Math.max(0, JOBS - there)).keys()], (n) =>
    server.kube('POST', JOBS_PATH, many(there + n)),
  );
  await expect.poll(total, { timeout: 900_000, intervals: [2_000] }).toBeGreaterThanOrEqual(JOBS);
}

test('a list of many jobs', async ({ app: page, server }) => {
  test.setTimeout(1_800_000);
  await seed(server);
  await watch(page);
  results['list'] = await load(page, '/jobs', '[data-job]');
  const searched = Date.now();
  await page.locator('[data-search]').fill('many-77');
  await shown(page, 'many-77', `many-${JOBS - 1}`);
  results['search the list'] = { milliseconds: Date.now() - searched, ...(await tasks(page)) };
  const sorted = Date.now();
  await page.goto('/jobs?sort=name');
  await shown(page, 'many-0', `many-${JOBS - 1}`);
  results['sort the list'] = { milliseconds: Date.now() - sorted };
});

/** How often in a second something changes, and for how long. */
const CHANGES = 200;
const SECONDS = 10;
/** So many requests at a time: a server that cannot keep up is measured, not flooded. */
const AT_ONCE = 32;

test('a list that changes all the time', async ({ app: page, server }) => {
  test.setTimeout(1_800_000);
  await seed(server);
  // Those that are shown, and as many again of the others: what one looks at changes all the time, and what not too.
  const { items } = await server.call<{ items: { name: string }[] }>('GET', '/api/trainjobs?limit=100');
  const change = (name: string | undefined, tag: string) =>
    server.kube('PATCH', `${JOBS_PATH}/${name}`, { metadata: { annotations: { 'astrago.io/tags': tag } } });
  await watch(page);
  await page.goto('/jobs');
  await expect(page.locator('[data-job]').first()).toBeVisible();
  let lists = 0;
  page.on('request', (request) => (lists += /\/api\/trainjobs\?/.test(request.url()) ? 1 : 0));
  let [sent, done] = [0, 0];
  let took = 0;
  const smoothness = await frames(page, async () => {
    const begun = performance.now();
    const pending: Promise<unknown>[] = [];
    // Each at its time, as far as the server keeps up.
    await new Promise<void>((resolve) => {
      const send = () => {
        const due = Math.floor(((performance.now() - begun) / 1000) * CHANGES);
        while (sent < Math.min(due, CHANGES * SECONDS) && sent - done < AT_ONCE) {
          const name = items[sent % items.length]?.name;
          pending.push(change(name, `change-${sent++}`).then(() => done++));
        }
        if (sent < CHANGES * SECONDS) setTimeout(send, 5);
        else resolve();
      };
      send();
    });
    await Promise.all(pending);
    took = performance.now() - begun;
  });
  const last = performance.now();
  await change(items[0]?.name, 'the-last');
  await page.waitForFunction(
    (name) => document.querySelector(`[data-job=${name}]`)?.textContent.includes('the-last'),
    items[0]?.name,
  );
  results['list while it changes'] = {
    changesPerSecond: Math.round(done / (took / 1000)),
    seenAfter: Math.round(performance.now() - last),
    listsAskedFor: lists,
    ...smoothness,
    ...(await tasks(page)),
  };
});

test('a curve of many points', async ({ app: page, server }) => {
  test.setTimeout(1_800_000);
  const code = [
    'import sys',
    `for start in range(0, ${LINES}, 1000):`,
    '    sys.stdout.write("".join(f"step {n} loss={1 / (n + 1):.6g}\\n" for n in range(start, start + 1000)))',
    '',
  ].join('\n');
  await server.call('POST', '/api/trainjob/create', job('long-curve', code));
  type Metrics = { points: { step: number }[] }[];
  const path = '/api/trainjobs/long-curve/metrics?namespace=default&points=10';
  const step = async () => (await server.call<Metrics>('GET', path))[0]?.points.at(-1)?.step;
  await expect.poll(step, { timeout: 1_500_000, intervals: [2_000] }).toBe(LINES - 1);
  // From another tab of the job, so that nothing of the curve is there yet.
  await page.goto('/jobs/default/long-curve/events');
  await expect(page.locator('tbody tr').first()).toBeVisible();
  await page.evaluate(() => new Promise((resolve) => requestIdleCallback(resolve, { timeout: 5_000 })));
  const opened = await page.evaluate(
    () =>
      new Promise<number>((resolve) => {
        const begun = performance.now();
        [...document.querySelectorAll<HTMLElement>('[role=tab]')]
          .find((tab) => /Metrics/.test(tab.innerText))
          ?.click();
        const look = () =>
          requestAnimationFrame(() =>
            document.querySelector('[data-metric=loss] canvas') === null
              ? look()
              : resolve(performance.now() - begun),
          );
        look();
      }),
  );
  const sent = await page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .filter((entry) => entry.name.includes('/metrics?'))
      .map((entry) => (entry as PerformanceResourceTiming).transferSize),
  );
  const asked = performance.now();
  await (await fetch(`http://${server.address}${path.replace('=10', '=200')}`, authorized(server))).text();
  results['curve'] = {
    milliseconds: Math.round(opened),
    serverMilliseconds: Math.round(performance.now() - asked),
    wireBytes: sent[0] ?? 0,
  };
  expect(sent[0]).toBeLessThan(20_000);
});

const authorized = (server: Server) => ({ headers: { authorization: `Bearer ${server.token}` } });

/** Waits for the frame in which one job is in the list and another is not; expectations look only now and then. */
async function shown(page: Page, present: string, absent: string) {
  await page.waitForFunction(
    ([present, absent]) =>
      document.querySelector(`[data-job=${present}]`) !== null &&
      document.querySelector(`[data-job=${absent}]`) === null,
    [present, absent],
  );
}

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
  const smoothness = await frames(page, async () => {
    for (let step = 0; step < 300; step++) await page.mouse.wheel(0, 2000);
  });
  const memory = await page.evaluate(
    () => (performance as unknown as { memory?: { usedJSHeapSize: number } }).memory?.usedJSHeapSize ?? 0,
  );
  results['read on through the log'] = {
    milliseconds: Date.now() - scrolled,
    ...smoothness,
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
