import { expect, expectAccessible, job, test } from './fixtures';

/** Three ranks that take some steps together; then one of them is somewhere else. */
const STALLS = `import os, time

def wait_for_others():
    time.sleep(3600)

def load_batch():
    time.sleep(3600)

for step in range(1, 6):
    print(f"step={step} loss={1 / step:.3f}", flush=True)
    time.sleep(0.1)
load_batch() if os.environ["RANK"] == "1" else wait_for_others()
`;

for (const [locale, colorScheme, title, said] of [
  [
    'en-US',
    'light',
    'No progress',
    /rank 1 is at .*train\.py:7 in load_batch, ranks 0, 2 wait at .*train\.py:4/,
  ],
  [
    'ko-KR',
    'dark',
    '학습이 더 나아가지 않습니다',
    /1번 랭크가 .*train\.py:7의 load_batch에 있어 나머지가 기다립니다/,
  ],
] as const) {
  test.describe(locale, () => {
    test.use({ locale, colorScheme });

    test('a job that makes no progress says so, and which rank the others wait for', async ({
      app: page,
      server,
    }) => {
      test.slow();
      const name = `stalls-${locale.slice(0, 2)}`;
      await server.call('POST', '/api/trainjob/create', job(name, STALLS, { num_nodes: 3, max_restarts: 0 }));
      await server.kube('PATCH', `/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/${name}`, {
        metadata: { annotations: { 'astrago.io/stall-after': '1s' } },
      });
      await page.goto(`/jobs/default/${name}`);
      const note = page.locator('[data-stalled=elsewhere]');
      await expect(note).toContainText(title, { timeout: 90_000 });
      await expect(note).toContainText(said);
      await expectAccessible(page);
      await server.call('DELETE', `/api/trainjob/${name}?namespace=default`);
    });
  });
}
