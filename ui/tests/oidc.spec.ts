import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { join } from 'node:path';

import { expect, expectAccessible, test, watched } from './fixtures';
import { Provider } from './provider';
import { binary, ended, pageOf, ready } from './server';

/** The provider sends the browser back to an address that has to be known before anybody listens there. */
async function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

test('signs in with the organisation’s provider, back to the page that was asked for', async ({
  server,
  browser,
}) => {
  const dana = { user: 'dana@example.com', groups: ['ml-admins', 'system:masters'] };
  const provider = new Provider({ sub: '1', email: dana.user }, (token) =>
    server.trust(token, dana.user, dana.groups),
  );
  await provider.start();
  const ports = [await freePort(), await freePort()] as const;
  const own = process.env['ASTRAGO_PAGE'] === 'vite' || !(await servesPage(server.address));
  const origin = `http://127.0.0.1:${own ? ports[1] : ports[0]}`;
  const child = spawn(binary(), [
    ...['serve', '--listen', `127.0.0.1:${ports[0]}`, '--kubeconfig', join(server.directory, 'kubeconfig')],
    ...['--data-dir', join(server.directory, 'of-serve')],
    ...['--oidc-issuer', provider.url, '--oidc-client-id', 'page'],
    ...['--public-url', origin],
  ]);
  await ready(child);
  const page = await pageOf(`http://127.0.0.1:${ports[0]}`, ports[1]);
  expect(page.origin).toBe(origin);
  const context = await browser.newContext({ baseURL: origin, locale: 'en-US' });
  try {
    const tab = await context.newPage();
    const problems = watched(tab);
    await tab.goto('/nodes');
    await expect(tab).toHaveURL(/\/login$/);
    await expectAccessible(tab);
    await tab.getByRole('link', { name: 'Sign in with your organisation' }).click();
    await expect(tab).toHaveURL(/\/nodes$/);
    await expect(tab.getByRole('heading', { name: 'Nodes' })).toBeVisible();
    await tab.getByRole('button', { name: 'Account of dana@example.com' }).click();
    await expect(tab.getByRole('menu')).toContainText('Administrator');
    await tab.getByRole('menuitem', { name: 'Settings' }).click();
    await expect(tab.getByText('ml-admins')).toBeVisible();

    await tab.getByRole('button', { name: 'Account of dana@example.com' }).click();
    await tab.getByRole('menuitem', { name: 'Sign out' }).click();
    await expect(tab).toHaveURL(/\/login$/);
    await tab.goto('/jobs');
    await expect(tab).toHaveURL(/\/login$/);
    expect(problems).toEqual([]);
  } finally {
    await context.close();
    await page.close();
    await ended(child);
    await provider.dispose();
  }
});

async function servesPage(address: string): Promise<boolean> {
  return (await (await fetch(`http://${address}`)).text()).includes('id="root"');
}
