import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { preview, type PreviewServer } from 'vite';

/** A real `astrago up` with its own data, on ports of its own. */
export class Server {
  private process: ChildProcess | undefined;
  private page: PreviewServer | undefined;
  private address = '127.0.0.1:0';
  private kubeAddress = '127.0.0.1:0';
  /** Where the browser finds the page. */
  origin = '';
  readonly directory = mkdtempSync(join(tmpdir(), 'astrago-ui-'));

  constructor(private readonly extra: string[] = []) {}

  get token(): string {
    return readFileSync(join(this.directory, 'admin.token'), 'utf8').trim();
  }

  /** Starts, or starts again with the same data and addresses. */
  async start(): Promise<void> {
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
    if (this.page === undefined) await this.servePage(endpoints.rest);
  }

  /** As a service manager would: SIGTERM, and wait for the end. */
  async stop(): Promise<void> {
    const child = this.process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
  }

  async dispose(): Promise<void> {
    await this.stop();
    await this.page?.close();
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Calls the API as the administrator. */
  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`http://${this.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  /** A binary built with the page serves it; before another one goes Vite, with what was built last. */
  private async servePage(rest: string): Promise<void> {
    const own = await (await fetch(rest)).text();
    if (own.includes('id="root"') && process.env['ASTRAGO_PAGE'] !== 'vite') {
      this.origin = rest;
      return;
    }
    this.page = await preview({
      logLevel: 'error',
      preview: {
        port: 0,
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
    const listening = this.page.httpServer.address();
    if (listening === null || typeof listening === 'string') throw new Error('the page has no port');
    this.origin = `http://127.0.0.1:${listening.port}`;
  }
}

function binary(): string {
  const target = process.env['CARGO_TARGET_DIR'] ?? resolve('../target');
  const path = process.env['ASTRAGO_BINARY'] ?? join(target, 'debug', 'astrago');
  if (!existsSync(path)) throw new Error(`no binary at ${path}: run \`cargo build --package astrago\``);
  return path;
}

function python(): string[] {
  const path = process.env['ASTRAGO_TEST_PYTHON'] ?? join(homedir(), '.cache/astrago/python/bin/python3');
  return existsSync(path) ? ['--python', path] : [];
}

/** Resolves at the ready line; rejects with everything that was said when the process ends before it. */
function ready(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    const listen = (data: Buffer) => {
      said += data.toString();
      if (/^ready: /m.test(said)) resolve();
    };
    child.stdout?.on('data', listen);
    child.stderr?.on('data', listen);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`astrago up ended with ${code}:\n${said}`)));
  });
}
