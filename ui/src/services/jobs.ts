import { keepPreviousData, type QueryKey, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

import type { Grouping } from '@/libs/groups';
import { stream } from '@/libs/stream';
import { isFinished, type State } from '@/libs/state';

import { useChange } from './change';
import { answered, client, type Schemas } from './client';
import { keyOf, withdrawn, written } from './pushed';

export interface JobFilters {
  namespace?: string;
  state?: State;
  framework?: string;
  user?: string;
  runtime?: string;
  tag?: string;
  /** Where one of its nodes runs or ran. */
  machine?: string;
  q?: string;
  group?: Grouping;
  sort?: string;
  page?: number;
  limit?: number;
  archived?: boolean;
}

export function useJobs(filters: JobFilters) {
  return useQuery({
    queryKey: ['jobs', filters],
    queryFn: ({ signal }) => answered(client.GET('/api/trainjobs', { params: { query: filters }, signal })),
    placeholderData: keepPreviousData,
    // How far a training is, and its loss, are no changes of a job that would be pushed.
    refetchInterval: (query) =>
      query.state.data?.items.some((job) => job.state === 'Running') ? 10_000 : 30_000,
  });
}

/** How often what was pushed is drawn, and how often a list may be asked for because of it. */
const DRAWN = 150;
const ASKED = 1_000;

/** Keeps lists and details current: what the server pushes is written where it is shown, and only the rest is asked for. */
export function useLiveJobs() {
  const queries = useQueryClient();
  useEffect(() => {
    const pushed = new Map<string, Schemas['JobSummary'] | string>();
    const stale = new Map<string, QueryKey>();
    const ask = (queryKey: QueryKey) => stale.set(JSON.stringify(queryKey), queryKey);
    let drawing: ReturnType<typeof setTimeout> | undefined;
    let asking: ReturnType<typeof setTimeout> | undefined;
    let missed = false;

    const fetchStale = () => {
      asking = undefined;
      if (missed) all();
      missed = false;
      for (const queryKey of stale.values()) void queries.invalidateQueries({ queryKey, exact: true });
      stale.clear();
    };
    const draw = () => {
      drawing = undefined;
      for (const [queryKey, list] of queries.getQueriesData<Schemas['JobList']>({ queryKey: ['jobs'] })) {
        if (list === undefined) continue;
        const filters = queryKey[1] as JobFilters;
        let now: Schemas['JobList'] | undefined = list;
        for (const job of pushed.values()) {
          const next: Schemas['JobList'] | undefined =
            typeof job === 'string' ? withdrawn(now, filters, job) : written(now, filters, job);
          if (next === undefined) ask(queryKey);
          else now = next;
        }
        if (now !== list) queries.setQueryData(queryKey, now);
      }
      for (const [key, job] of pushed) {
        const [namespace = '', name = ''] = key.split('/');
        const queryKey = ['job', { namespace, name }];
        // Of many that change only few are looked at.
        const known = queries.getQueryState<Schemas['JobDetail']>(queryKey);
        if (known === undefined) continue;
        if (known.data !== undefined && typeof job !== 'string')
          queries.setQueryData<Schemas['JobDetail']>(queryKey, { ...known.data, ...job });
        // Its nodes, and why it waits or failed, are more than was pushed.
        ask(queryKey);
        ask([...queryKey, 'events']);
        ask([...queryKey, 'attempts']);
      }
      ask(['queue']);
      pushed.clear();
      asking ??= setTimeout(fetchStale, ASKED);
    };
    const all = () => {
      for (const key of ['jobs', 'job', 'queue']) void queries.invalidateQueries({ queryKey: [key] });
    };
    const stop = stream('/api/trainjobs/stream', {
      headers: () => ({}),
      onEvent: ({ event, data }) => {
        if (event === 'job') {
          const job = JSON.parse(data) as Schemas['JobSummary'];
          pushed.set(keyOf(job), job);
        } else if (event === 'deleted') pushed.set(data, data);
        else {
          // So much happened at once that it was not told.
          missed = true;
          asking ??= setTimeout(fetchStale, ASKED);
          return;
        }
        drawing ??= setTimeout(draw, DRAWN);
      },
      onState: (state) => state === 'open' && all(),
    });
    return () => {
      stop();
      clearTimeout(drawing);
      clearTimeout(asking);
    };
  }, [queries]);
}

export interface JobKey {
  namespace: string;
  name: string;
}

const where = ({ namespace, name }: JobKey) => ({ path: { name }, query: { namespace } });

/** The question for a job, for one or several. */
export function jobOf({ namespace, name }: JobKey) {
  const key = { namespace, name };
  return {
    queryKey: ['job', key],
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      answered(client.GET('/api/trainjobs/{name}', { params: where(key), signal })),
  };
}

export function useJob(key: JobKey) {
  return useQuery({ ...jobOf(key), refetchInterval: (query) => pauseOf(query.state.data) });
}

/**
 * How long until a job is read again. For a while after its end, too: why it failed is known only when the last lines of its logs are.
 */
function pauseOf(job: Schemas['JobDetail'] | undefined): number | false {
  if (job === undefined || !isFinished(job.state)) return 5_000;
  return job.completed_at != null && Date.now() - Date.parse(job.completed_at) > 60_000 ? false : 2_000;
}

export function useJobEvents(key: JobKey) {
  return useQuery({
    queryKey: ['job', key, 'events'],
    queryFn: ({ signal }) =>
      answered(client.GET('/api/trainjobs/{name}/events', { params: where(key), signal })),
  });
}

/** A part of the curves, by steps or, in milliseconds since the epoch, by times. */
export interface Zoom {
  axis: 'step' | 'time';
  from: number;
  to: number;
}

/** Points of each curve: enough for the width of a chart. */
const POINTS = 200;

/** The question for a job's metrics, for one job or several. */
export function metricsOf({ namespace, name }: JobKey, live: boolean, zoom?: Zoom) {
  const key = { namespace, name };
  const time = (milliseconds: number) => new Date(milliseconds).toISOString();
  const part =
    zoom === undefined
      ? {}
      : zoom.axis === 'time'
        ? { from_time: time(zoom.from), to_time: time(zoom.to) }
        : { from_step: zoom.from, to_step: zoom.to };
  const { path, query } = where(key);
  return {
    queryKey: ['job', key, 'metrics', part, live],
    // The last lines of a job are read a moment after its end, so they are asked for a little longer.
    refetchInterval: (query: { state: { dataUpdateCount: number } }) =>
      live ? 5_000 : query.state.dataUpdateCount < 3 && 1_500,
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      answered(
        client.GET('/api/trainjobs/{name}/metrics', {
          params: { path, query: { ...query, points: POINTS, ...part } },
          signal,
        }),
      ),
  };
}

export function useJobMetrics(job: Schemas['JobDetail']) {
  const now = useQuery(metricsOf(job, !isFinished(job.state)));
  // Until the first answer after its end, the last one before it is shown.
  const before = useQuery({ ...metricsOf(job, true), enabled: false });
  return now.data === undefined ? before : now;
}

export function useManifest(key: JobKey) {
  return useQuery({
    queryKey: ['job', key, 'manifest'],
    queryFn: ({ signal }) =>
      answered(client.GET('/api/trainjobs/{name}/manifest', { params: where(key), signal, parseAs: 'text' })),
  });
}

export type Action = 'suspend' | 'resume' | 'restart' | 'delete';

export function useJobAction() {
  return useChange(act, ['jobs'], ['job']);
}

/** Answers with the new job where there is one. */
async function act({
  key,
  action,
}: {
  key: JobKey;
  action: Action;
}): Promise<Schemas['CreateResponse'] | undefined> {
  const params = where(key);
  switch (action) {
    case 'suspend':
      await answered(client.POST('/api/trainjobs/{name}/suspend', { params }));
      return undefined;
    case 'resume':
      await answered(client.POST('/api/trainjobs/{name}/resume', { params }));
      return undefined;
    case 'restart':
      return answered(client.POST('/api/trainjobs/{name}/restart', { params }));
    case 'delete':
      await answered(client.DELETE('/api/trainjob/{name}', { params }));
      return undefined;
  }
}

/** What people write to a job. */
export function useSetNotes({ namespace, name }: JobKey) {
  return useChange(
    (body: Schemas['Notes']) =>
      answered(client.PUT('/api/trainjobs/{name}/notes', { params: where({ namespace, name }), body })),
    ['jobs'],
    ['job', { namespace, name }],
  );
}

export type CreateRequest = Schemas['CreateRequest'];

export function useCreate() {
  return useChange(
    ({ request, key }: { request: CreateRequest; key: string }) =>
      answered(client.POST('/api/trainjob/create', { body: request, headers: { 'idempotency-key': key } })),
    ['jobs'],
  );
}

export function usePreview(request: CreateRequest | undefined) {
  return useQuery({
    queryKey: ['preview', request],
    enabled: request !== undefined,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) =>
      answered(client.POST('/api/trainjob/preview', { body: request as CreateRequest, signal })),
  });
}

export function useFit(request: CreateRequest | undefined) {
  return useQuery({
    queryKey: ['fit', request],
    enabled: request !== undefined,
    retry: false,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => answered(client.POST('/api/fit', { body: request as CreateRequest, signal })),
  });
}

/** The create form that would make this job again. */
export async function cloneOf(key: JobKey): Promise<CreateRequest> {
  return answered(client.GET('/api/trainjobs/{name}/clone', { params: where(key) }));
}

/** The settings of a job as they were typed. */
export function formOf({ namespace, name }: JobKey) {
  const key = { namespace, name };
  return {
    queryKey: ['job', key, 'form'],
    queryFn: () => cloneOf(key),
    retry: false,
    staleTime: Infinity,
  };
}

export function useJobForm(key: JobKey) {
  return useQuery(formOf(key));
}

/** How long a waiting job may have to wait yet, where the running ones say when they end. */
export function useWait(key: JobKey): number | null | undefined {
  const wait = useQuery({
    queryKey: ['job', key, 'wait'],
    retry: false,
    refetchInterval: 15_000,
    queryFn: async () => answered(client.POST('/api/fit', { body: await cloneOf(key) })),
  });
  return wait.data?.wait_seconds;
}

/** What the nodes of a job really use, over time. */
export function useJobUsage(job: Schemas['JobDetail']) {
  const { namespace, name } = job;
  return useQuery({
    queryKey: ['job', { namespace, name }, 'usage'],
    refetchInterval: isFinished(job.state) ? false : 5_000,
    queryFn: ({ signal }) =>
      answered(client.GET('/api/trainjobs/{name}/usage', { params: where({ namespace, name }), signal })),
  });
}
