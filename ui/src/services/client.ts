import createClient from 'openapi-fetch';

import type { components, paths } from '@/api.gen';

export type Schemas = components['schemas'];

/** A field that the server refuses. Older servers give no code. */
export type Refused = Pick<Schemas['FieldError'], 'field' | 'message'> & Partial<Schemas['FieldError']>;

/** What the server says when it refuses: one sentence, the wrong fields, what to do. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: Refused[] = [],
  ) {
    super(message);
  }
}

export const UNREACHABLE = 0;

/** Whether there is nothing of the name that was asked for, or can be: an address may have any in it. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 422);
}

/** Called when the session is over, so that the page can ask to sign in. */
let onSignedOut = () => {};
export function whenSignedOut(handler: () => void) {
  onSignedOut = handler;
}

export const client = createClient<paths>({
  // Cookies carry the session; this header shows the server that the request comes from the page and not from another site's form.
  headers: { 'x-astrago-request': 'page' },
  fetch: async (request) => {
    try {
      return await fetch(request);
    } catch (error) {
      if (request.signal.aborted) throw error;
      throw new ApiError(UNREACHABLE, 'unreachable', 'the server cannot be reached');
    }
  },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The data of an answer, or an ApiError with what the server said. */
export async function answered<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (response.ok) return data as T;
  if (response.status === 401) onSignedOut();
  const body = (
    error as
      | {
          error?: {
            code?: string;
            message?: string;
            fields?: Refused[];
          };
        }
      | undefined
  )?.error;
  throw new ApiError(
    response.status,
    body?.code ?? 'unknown',
    body?.message ?? `${response.status} ${response.statusText}`,
    body?.fields ?? [],
  );
}

/** A call whose answer the API's description does not have in every version of the server. */
export function ask<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: unknown): Promise<T> {
  const send = async () => {
    const response = await fetch(path, {
      method,
      headers: {
        'x-astrago-request': 'page',
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }).catch(() => {
      throw new ApiError(UNREACHABLE, 'unreachable', 'the server cannot be reached');
    });
    const text = await response.text();
    const value: unknown = text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : undefined;
    return response.ok ? { data: value as T, response } : { error: value, response };
  };
  return answered(send());
}
