import { useEffect, useMemo, useState } from 'react';

import { type Line, Lines } from '@/libs/lines';
import { stream } from '@/libs/stream';

import type { Schemas } from './client';

export interface LogSource {
  namespace: string;
  name: string;
  worker?: number | undefined;
  previous: boolean;
}

function query({ namespace, worker, previous }: LogSource): string {
  const parameters = new URLSearchParams({ namespace });
  if (worker !== undefined) parameters.set('worker', String(worker));
  if (previous) parameters.set('previous', 'true');
  return parameters.toString();
}

export function downloadUrl(source: LogSource): string {
  return `/api/trainjobs/${source.name}/logs/download?${query(source)}`;
}

async function previousAttempt(parameters: string, name: string, signal: AbortSignal): Promise<Line[]> {
  const response = await fetch(`/api/trainjobs/${name}/logs?${parameters}`, { signal });
  const body = (await response.json()) as Schemas['LogLines'];
  return body.lines.map((line, index) => ({
    id: String(index),
    worker: line.worker,
    time: line.time ?? undefined,
    text: line.text,
  }));
}

/** Follows a log. Lines are gathered and shown a few times a second: a fast job must not freeze the page. */
export function useLogStream(source: LogSource) {
  const { name, previous } = source;
  const parameters = query(source);
  const url = `/api/trainjobs/${name}/logs/stream?${parameters}`;
  const lines = useMemo(() => new Lines(), []);
  const [version, setVersion] = useState(0);
  const [state, setState] = useState<'connecting' | 'open' | 'closed'>('connecting');

  useEffect(() => {
    lines.clear();
    let waiting: Line[] = [];
    let frame: ReturnType<typeof setTimeout> | undefined;
    // A stream that was left behind still ends; what it says then is not about this one.
    let current = true;
    const show = () => {
      frame = undefined;
      lines.append(waiting);
      waiting = [];
      setVersion(lines.version);
    };
    // An attempt that is over does not grow: it is read once.
    if (previous) {
      const abort = new AbortController();
      void previousAttempt(parameters, name, abort.signal).then(
        (read) => {
          lines.append(read);
          setVersion(lines.version);
          setState('closed');
        },
        () => current && setState('closed'),
      );
      return () => {
        current = false;
        abort.abort();
      };
    }
    const stop = stream(url, {
      headers: () => ({}),
      onEvent: (event) => {
        if (event.data === '' || event.event === 'end') return;
        const line = JSON.parse(event.data) as { time?: string | null; worker: number; text: string };
        waiting.push({ id: event.id, worker: line.worker, time: line.time ?? undefined, text: line.text });
        frame ??= setTimeout(show, 80);
      },
      onState: (next) => {
        if (current) setState(next);
      },
    });
    return () => {
      current = false;
      stop();
      clearTimeout(frame);
    };
  }, [lines, name, parameters, previous, url]);

  return { lines, version, state };
}
