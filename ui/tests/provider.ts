import { createHash, createSign, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  type Server as HttpServer,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

interface Asked {
  challenge: string;
  nonce: string;
  client: string;
  redirect: string;
}

/** An OpenID provider with one user, who is always willing: codes that work once, PKCE, tokens that are really signed. */
export class Provider {
  private readonly server: HttpServer;
  private readonly codes = new Map<string, Asked>();
  private readonly key: KeyObject;
  private readonly jwk: object;
  url = '';

  /** `issued` hears of every token before anybody has it. */
  constructor(
    private readonly claims: Record<string, unknown>,
    private readonly issued: (token: string) => Promise<void>,
  ) {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    this.key = privateKey;
    this.jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' };
    this.server = createServer((request, response) => void this.answer(request, response));
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async dispose(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async answer(request: IncomingMessage, response: ServerResponse) {
    const url = new URL(request.url ?? '/', this.url);
    const json = (status: number, body: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    switch (url.pathname) {
      case '/.well-known/openid-configuration':
        return json(200, {
          issuer: this.url,
          authorization_endpoint: `${this.url}/authorize`,
          token_endpoint: `${this.url}/token`,
          jwks_uri: `${this.url}/keys`,
        });
      case '/keys':
        return json(200, { keys: [this.jwk] });
      case '/authorize': {
        const of = (name: string) => url.searchParams.get(name) ?? '';
        const code = randomUUID();
        const redirect = of('redirect_uri');
        this.codes.set(code, {
          challenge: of('code_challenge'),
          nonce: of('nonce'),
          client: of('client_id'),
          redirect,
        });
        const back = new URL(redirect);
        back.searchParams.set('code', code);
        back.searchParams.set('state', of('state'));
        response.writeHead(302, { location: back.href });
        return response.end();
      }
      case '/token': {
        const form = new URLSearchParams(await bodyOf(request));
        const asked = this.codes.get(form.get('code') ?? '');
        this.codes.delete(form.get('code') ?? '');
        const proof = createHash('sha256')
          .update(form.get('code_verifier') ?? '')
          .digest('base64url');
        if (asked === undefined || proof !== asked.challenge || form.get('redirect_uri') !== asked.redirect)
          return json(400, { error: 'invalid_grant' });
        const token = this.token(asked);
        await this.issued(token);
        return json(200, { token_type: 'Bearer', access_token: randomUUID(), id_token: token });
      }
      default:
        return json(404, {});
    }
  }

  private token({ nonce, client }: Asked): string {
    const now = Math.floor(Date.now() / 1000);
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const text = `${part({ alg: 'RS256', kid: 'one', typ: 'JWT' })}.${part({
      iss: this.url,
      aud: client,
      iat: now,
      exp: now + 300,
      nonce,
      ...this.claims,
    })}`;
    return `${text}.${createSign('RSA-SHA256').update(text).sign(this.key, 'base64url')}`;
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}
