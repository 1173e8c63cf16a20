import { useQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

import { isFinished } from '@/libs/state';
import { stream } from '@/libs/stream';
import { type Chunk, type Line, LogWindow } from '@/libs/window';

import { answered, client, type Schemas } from './client';

export interface LogSource {
  namespace: string;
  name: string;
  worker?: number | undefined;
  /** How many attempts back; 0 is the last one. */
  attempt: number;
}

const PAGE = 1000;

type Place =
  | { before: string }
  | { after: string }
  | { around: string }
  | { thousandths: number }
  | Record<never, never>;

export function downloadUrl({ namespace, name, worker, attempt }: LogSource): string {
  const parameters = new URLSearchParams({ namespace, attempt: String(attempt) });
  if (worker !== undefined) parameters.set('worker', String(worker));
  return `/api/trainjobs/${name}/logs/download?${parameters.toString()}`;
}

function read({ namespace, name, worker, attempt }: LogSource, place: Place, signal: AbortSignal) {
  const query = { namespace, attempt, limit: PAGE, ...(worker !== undefined && { worker }), ...place };
  return answered(
    client.GET('/api/trainjobs/{name}/logs/page', { params: { path: { name }, query }, signal }),
  );
}

function chunkOf(page: Schemas['LogPage']): Chunk {
  const { start, end, lines } = page;
  return { start, end, lines, startByte: page.start_byte, endByte: page.end_byte };
}

export type LogState = 'connecting' | 'open' | 'closed' | 'away' | 'failed';

export interface Log {
  window: LogWindow;
  /** `window.version`, so that views know when to look again. */
  version: number;
  state: LogState;
  error: Error | undefined;
  /** Reads what comes before or behind the window. Does nothing while the one before is under way. */
  more: (side: 'before' | 'after') => void;
  /** Goes elsewhere; resolves when the window is there. */
  go: (place: Place) => Promise<void>;
  /** Whether the reader is at the end and wants to stay there. */
  follow: (on: boolean) => void;
}

/**
 * A log, read page by page around the reader, and live at its end. Lines are gathered and shown a few times a
 * second: a fast job must not freeze the page.
 */
export function useLog(source: LogSource): Log {
  const { namespace, name, worker, attempt } = source;
  const window = useMemo(() => new LogWindow(), []);
  const [version, setVersion] = useState(0);
  const [state, setState] = useState<LogState>('connecting');
  const [error, setError] = useState<Error>();
  const following = useRef(true);
  const reader = useRef<Reader>(undefined);

  useEffect(() => {
    const one = new Reader({ namespace, name, worker, attempt }, window, {
      shown: () => setVersion(window.version),
      state: setState,
      error: setError,
      following: () => following.current,
    });
    reader.current = one;
    void one.go({});
    return () => one.dispose();
  }, [window, namespace, name, worker, attempt]);

  const more = useCallback((side: 'before' | 'after') => void reader.current?.more(side), []);
  const go = useCallback(async (place: Place) => reader.current?.go(place), []);
  const follow = useCallback((on: boolean) => {
    following.current = on;
  }, []);
  return { window, version, state, error, more, go, follow };
}

interface Told {
  shown: () => void;
  state: (state: LogState) => void;
  error: (error: Error | undefined) => void;
  following: () => boolean;
}

/** Fills a window: pages on request, and the stream while the window reaches to the end. */
class Reader {
  private abort = new AbortController();
  private busy = false;
  private waiting: Line[] = [];
  private place = '';
  private timer: ReturnType<typeof setTimeout> | undefined;
  private stopStream: (() => void) | undefined;

  constructor(
    private readonly source: LogSource,
    private readonly window: LogWindow,
    private readonly told: Told,
  ) {}

  dispose() {
    this.abort.abort();
    this.leaveEnd();
  }

  async go(place: Place): Promise<void> {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.leaveEnd();
    this.busy = true;
    this.told.state('connecting');
    try {
      const page = await read(this.source, place, signal);
      if (signal.aborted) return;
      this.window.totalBytes = page.total_bytes;
      this.window.reset(chunkOf(page), { first: page.first, last: page.last });
      this.told.error(undefined);
      this.told.shown();
      if (page.last) this.joinEnd();
      else this.told.state('away');
    } catch (error) {
      this.failed(error, signal);
    } finally {
      if (!signal.aborted) this.busy = false;
    }
  }

  async more(side: 'before' | 'after'): Promise<void> {
    if (this.busy || (side === 'before' ? this.window.first : this.window.last)) return;
    this.busy = true;
    const { signal } = this.abort;
    try {
      const place = side === 'before' ? { before: this.window.start } : { after: this.window.end };
      const page = await read(this.source, place, signal);
      if (signal.aborted) return;
      this.window.totalBytes = page.total_bytes;
      if (side === 'before') {
        this.flush();
        this.window.prepend(chunkOf(page), page.first);
        // What was let go at the end is read again when the reader comes back to it.
        if (!this.window.last) this.leaveEnd('away');
      } else {
        this.window.last = page.last;
        this.window.append(chunkOf(page), false);
        if (page.last) this.joinEnd();
      }
      this.told.error(undefined);
      this.told.shown();
    } catch (error) {
      this.failed(error, signal);
    } finally {
      if (!signal.aborted) this.busy = false;
    }
  }

  private failed(error: unknown, signal: AbortSignal) {
    if (signal.aborted) return;
    this.told.error(error instanceof Error ? error : new Error(String(error)));
    this.told.state('failed');
  }

  /** Follows the log from the end of the window on. An attempt that is over does not grow. */
  private joinEnd() {
    this.leaveEnd();
    if (this.source.attempt > 0) {
      this.told.state('closed');
      return;
    }
    const { namespace, name, worker } = this.source;
    const parameters = new URLSearchParams({ namespace });
    if (worker !== undefined) parameters.set('worker', String(worker));
    let current = true;
    const stop = stream(`/api/trainjobs/${name}/logs/stream?${parameters.toString()}`, {
      headers: () => ({}),
      lastEventId: this.window.end,
      onEvent: (event) => {
        if (!current || event.data === '' || event.event === 'end') return;
        this.waiting.push(JSON.parse(event.data) as Line);
        this.place = event.id;
        this.timer ??= setTimeout(() => this.show(), 80);
      },
      onState: (next) => {
        if (!current) return;
        if (next === 'closed') this.show();
        this.told.state(next);
      },
    });
    this.stopStream = () => {
      current = false;
      stop();
    };
  }

  private leaveEnd(state?: LogState) {
    this.stopStream?.();
    this.stopStream = undefined;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.waiting = [];
    if (state !== undefined) this.told.state(state);
  }

  private show() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.flush();
    // Whoever reads further up is not buried in what arrives: it is read when they come down to it.
    if (!this.told.following() && this.window.full) {
      this.window.last = false;
      this.leaveEnd('away');
    }
    this.told.shown();
  }

  private flush() {
    if (this.waiting.length === 0) return;
    const lines = this.waiting;
    this.waiting = [];
    const startByte = this.window.endByte;
    const chunk = { start: this.window.end, end: this.place, lines, startByte, endByte: bytesOf(this.place) };
    this.window.append(chunk, !this.told.following());
  }
}

/** The bytes up to a place (`worker:attempt:offset`, joined by commas), which the server says only with a page. */
function bytesOf(place: string): number {
  return place.split(',').reduce((sum, part) => sum + Number(part.split(':')[2] ?? 0), 0);
}

/** The attempts that have a log. One that has just begun comes a moment after its job says so. */
export function useLogAttempts({ namespace, name, state }: Schemas['JobDetail']) {
  return useQuery({
    queryKey: ['job', { namespace, name }, 'attempts'],
    refetchInterval: isFinished(state) ? false : 5_000,
    queryFn: ({ signal }) =>
      answered(
        client.GET('/api/trainjobs/{name}/logs/attempts', {
          params: { path: { name }, query: { namespace } },
          signal,
        }),
      ),
  });
}

export interface LogQuery {
  text: string;
  regex: boolean;
  matchCase: boolean;
}

/** The pattern of a query as the server takes it; plain text without regard to case is a pattern, too. */
function patternOf({ text, regex, matchCase }: LogQuery): { q: string; regex: boolean } {
  const pattern = regex ? text : text.replace(/[.*+?^${}()|[\]\\#&~-]/g, '\\$&');
  if (matchCase) return regex ? { q: text, regex } : { q: text, regex: false };
  return { q: `(?i)${pattern}`, regex: true };
}

/** Searches all of a log on the server, however long it is. */
export function useLogSearch(source: LogSource, query: LogQuery, live: boolean) {
  const { namespace, name, worker, attempt } = source;
  return useQuery({
    queryKey: ['log-search', source, query],
    enabled: query.text !== '',
    retry: false,
    refetchInterval: live ? 10_000 : false,
    queryFn: ({ signal }) =>
      answered(
        client.GET('/api/trainjobs/{name}/logs/search', {
          params: {
            path: { name },
            query: {
              namespace,
              attempt,
              limit: 1000,
              ...(worker !== undefined && { worker }),
              ...patternOf(query),
            },
          },
          signal,
        }),
      ),
    select: inOrder,
  });
}

/** The server searches one worker after the other; the log is read in the order of time. */
function inOrder(result: Schemas['SearchResult']): Schemas['SearchResult'] {
  const time = (hit: Schemas['SearchHit']) => (hit.time == null ? 0 : Date.parse(hit.time));
  return { ...result, hits: result.hits.toSorted((a, b) => time(a) - time(b) || a.line - b.line) };
}

/** The same query as the page marks it in the lines in sight; `undefined` where the page cannot read the pattern. */
export function markerOf(query: LogQuery): RegExp | undefined {
  if (query.text === '') return undefined;
  const source = query.regex ? query.text : query.text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  try {
    return new RegExp(source, query.matchCase ? 'g' : 'gi');
  } catch {
    return undefined;
  }
}
