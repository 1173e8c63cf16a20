import { expect, signIn, test } from './fixtures';
import { Server } from './server';

test('says when the server is away, and goes on when it is back', async ({ browser }) => {
  const server = new Server(['--no-node']);
  await server.start();
  const context = await browser.newContext({ baseURL: server.origin });
  try {
    const page = await context.newPage();
    const thrown: Error[] = [];
    page.on('pageerror', (error) => thrown.push(error));
    await signIn(page, server.token);
    await page.goto('/queue');
    await expect(page.getByRole('heading', { name: 'Nothing is waiting' })).toBeVisible();
    await server.stop();
    await expect(page.getByText('Reconnecting to the server…')).toBeVisible();
    await server.start();
    await expect(page.getByText('Reconnecting to the server…')).toBeHidden();
    await expect(page.getByRole('heading', { name: 'Nothing is waiting' })).toBeVisible();
    expect(thrown).toEqual([]);
  } finally {
    await context.close();
    await server.dispose();
  }
});
