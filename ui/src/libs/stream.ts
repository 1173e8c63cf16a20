/**
 * Server-sent events over `fetch`, because the browser's EventSource cannot send a bearer token.
 * Reconnects with back-off and `Last-Event-ID`, so that nothing is lost or doubled after a break.
 */
export interface StreamEvent {
  id: string;
  event: string;
  data: string;
}

export interface StreamOptions {
  headers: () => Record<string, string>;
  onEvent: (event: StreamEvent) => void;
  onState: (state: 'connecting' | 'open' | 'closed') => void;
  lastEventId?: string;
}

export function stream(url: string, options: StreamOptions): () => void {
  const abort = new AbortController();
  let lastEventId = options.lastEventId ?? '';
  void (async () => {
    let delay = 500;
    while (!abort.signal.aborted) {
      options.onState('connecting');
      try {
        const response = await fetch(url, {
          signal: abort.signal,
          headers: {
            accept: 'text/event-stream',
            ...options.headers(),
            ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
          },
        });
        if (
          response.status === 204 ||
          (response.status >= 400 && response.status < 500 && response.status !== 429)
        ) {
          options.onState('closed');
          return;
        }
        if (!response.ok || response.body === null) throw new Error(`status ${response.status}`);
        options.onState('open');
        delay = 500;
        const parser = new Parser((event) => {
          if (event.id !== '') lastEventId = event.id;
          if (event.event === 'end') abort.abort();
          options.onEvent(event);
        });
        const decoder = new TextDecoder();
        for await (const chunk of chunks(response.body)) parser.feed(decoder.decode(chunk, { stream: true }));
      } catch {
        // A break: wait and connect again from where we were.
      }
      if (abort.signal.aborted) break;
      options.onState('connecting');
      await new Promise((resolve) => setTimeout(resolve, delay));
      delay = Math.min(delay * 2, 10_000);
    }
    options.onState('closed');
  })();
  return () => abort.abort();
}

async function* chunks(body: ReadableStream<Uint8Array>) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}

/** The event stream format: fields in lines, an empty line ends an event. */
export class Parser {
  private rest = '';
  private event: StreamEvent = { id: '', event: 'message', data: '' };
  private hasData = false;

  constructor(private readonly onEvent: (event: StreamEvent) => void) {}

  feed(text: string) {
    const lines = (this.rest + text).split('\n');
    this.rest = lines.pop() ?? '';
    for (const line of lines) this.line(line.endsWith('\r') ? line.slice(0, -1) : line);
  }

  private line(line: string) {
    if (line === '') {
      if (this.hasData || this.event.event !== 'message') this.onEvent(this.event);
      this.event = { id: '', event: 'message', data: '' };
      this.hasData = false;
      return;
    }
    if (line.startsWith(':')) return;
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') {
      this.event.data = this.hasData ? `${this.event.data}\n${value}` : value;
      this.hasData = true;
    } else if (field === 'id') this.event.id = value;
    else if (field === 'event') this.event.event = value;
  }
}
