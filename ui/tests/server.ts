import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { homedir, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { preview } from 'vite';

/**
 * A real `astrago up` with its own data, on ports of its own; or one that runs already, such as an `astrago serve`
 * before a cluster, for the tests with the tag `@cluster`.
 */
export class Server {
  private process: ChildProcess | undefined;
  private page: Page | undefined;
  address = '127.0.0.1:0';
  private kubeAddress = '127.0.0.1:0';
  // Its authority is its own, and nobody else listens there.
  private readonly agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
  readonly directory = mkdtempSync(join(tmpdir(), 'astrago-ui-'));

  constructor(private readonly extra: string[] = []) {}

  get origin(): string {
    return this.page?.origin ?? '';
  }

  /** Whether Vite hands out the page, not the binary. */
  get behindVite(): boolean {
    return new URL(this.origin).host !== this.address;
  }

  get token(): string {
    const given = process.env['ASTRAGO_E2E_TOKEN'];
    if (given !== undefined) return given;
    return readFileSync(join(this.directory, 'admin.token'), 'utf8').trim();
  }

  /** Starts, or starts again with the same data and addresses. */
  async start(): Promise<void> {
    const running = process.env['ASTRAGO_E2E_SERVER'];
    if (running !== undefined) {
      this.address = new URL(running).host;
      this.page ??= await pageOf(running);
      return;
    }
    const child = spawn(binary(), [
      ...['up', '--stop-pods', '--data-dir', this.directory],
      ...['--listen', this.address, '--kube-listen', this.kubeAddress],
      ...python(),
      ...this.extra,
    ]);
    this.process = child;
    await ready(child);
    const endpoints = JSON.parse(readFileSync(join(this.directory, 'endpoints.json'), 'utf8')) as {
      rest: string;
      kube: string;
    };
    this.address = new URL(endpoints.rest).host;
    this.kubeAddress = new URL(endpoints.kube).host;
    this.page ??= await pageOf(endpoints.rest);
  }

  async stop(): Promise<void> {
    this.agent.destroy();
    if (this.process !== undefined) await ended(this.process);
  }

  async dispose(): Promise<void> {
    await this.stop();
    await this.page?.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Has the API server take a token, as that of a cluster takes those of a provider that it is set up for. */
  async trust(token: string, user: string, groups: string[]): Promise<void> {
    await this.kube('POST', '/api/v1/namespaces/kube-system/secrets', {
      metadata: { generateName: 'of-a-provider-' },
      type: 'astrago.io/token',
      stringData: { token, user, groups: groups.join(',') },
    });
  }

  /** Calls the Kubernetes API as the administrator; a patch is a merge patch. */
  async kube(method: 'POST' | 'PATCH', path: string, body: unknown): Promise<void> {
    const [host, port] = this.kubeAddress.split(':');
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const [status, said] = await new Promise<[number | undefined, string]>((resolve, reject) => {
      const asked = request(
        {
          ...{ host, port, method, path, agent: this.agent },
          headers: { authorization: `Bearer ${this.token}`, 'content-type': type },
        },
        (response) => {
          let text = '';
          response.on('data', (data: Buffer) => (text += data.toString()));
          response.once('end', () => resolve([response.statusCode, text]));
        },
      );
      asked.once('error', reject);
      asked.end(JSON.stringify(body));
    });
    if (status === undefined || status >= 300) throw new Error(`${method} ${path}: ${status} ${said}`);
  }

  /** Calls the API as the administrator, or whoever has the token. */
  async call<T>(method: string, path: string, body?: unknown, token = this.token): Promise<T> {
    const response = await fetch(`http://${this.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }
}

export interface Page {
  /** Where the browser finds it. */
  origin: string;
  close: () => Promise<void>;
}

/** A binary built with the page serves it; before another one goes Vite, with what was built last. */
export async function pageOf(rest: string, port = 0): Promise<Page> {
  const own = await (await fetch(rest)).text();
  if (own.includes('id="root"') && process.env['ASTRAGO_PAGE'] !== 'vite') {
    return { origin: rest, close: () => Promise.resolve() };
  }
  const page = await preview({
    logLevel: 'error',
    preview: {
      port,
      strictPort: true,
      host: '127.0.0.1',
      // The policy of the binary, so that the page is held to it here too.
      headers: {
        'content-security-policy':
          "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'",
      },
      proxy: {
        '/api': {
          target: rest,
          changeOrigin: true,
          headers: { origin: rest },
          configure: (proxy) =>
            proxy.on('error', (_error, _request, response) => {
              if ('writeHead' in response) response.writeHead(502);
              response.end();
            }),
        },
      },
    },
  });
  const listening = page.httpServer.address();
  if (listening === null || typeof listening === 'string') throw new Error('the page has no port');
  return { origin: `http://127.0.0.1:${listening.port}`, close: () => page.close() };
}

export function binary(): string {
  const target = process.env['CARGO_TARGET_DIR'] ?? resolve('../target');
  const path = process.env['ASTRAGO_BINARY'] ?? join(target, 'debug', 'astrago');
  if (!existsSync(path)) throw new Error(`no binary at ${path}: run \`cargo build --package astrago\``);
  return path;
}

function python(): string[] {
  const path = process.env['ASTRAGO_TEST_PYTHON'] ?? join(homedir(), '.cache/astrago/python/bin/python3');
  return existsSync(path) ? ['--python', path] : [];
}

/** Resolves with what was said up to the ready line; rejects with everything that was said when the process ends before it. */
export function ready(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    const listen = (data: Buffer) => {
      said += data.toString();
      if (/^ready: .*\n/m.test(said)) resolve(said);
    };
    child.stdout?.on('data', listen);
    child.stderr?.on('data', listen);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`astrago up ended with ${code}:\n${said}`)));
  });
}

/** As a service manager would: SIGTERM, and wait for the end. */
export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await exit;
}
