import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

import { stream } from '@/libs/stream';
import { isFinished, type State } from '@/libs/state';

import { useChange } from './change';
import { answered, client, type Schemas } from './client';

export interface JobFilters {
  namespace?: string;
  state?: State;
  framework?: string;
  user?: string;
  q?: string;
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
    refetchInterval: 30_000,
  });
}

/** Keeps lists and details current: the server tells which job changed, and what shows it is read again. */
export function useLiveJobs() {
  const queries = useQueryClient();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = () => {
      timer = undefined;
      void queries.invalidateQueries({ queryKey: ['jobs'] });
      void queries.invalidateQueries({ queryKey: ['job'] });
      void queries.invalidateQueries({ queryKey: ['queue'] });
      void queries.invalidateQueries({ queryKey: ['nodes'] });
    };
    const stop = stream('/api/trainjobs/stream', {
      headers: () => ({}),
      // Many changes at once (a burst of submissions) become one refresh.
      onEvent: () => (timer ??= setTimeout(refresh, 400)),
      onState: (state) => state === 'open' && refresh(),
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [queries]);
}

export interface JobKey {
  namespace: string;
  name: string;
}

const where = ({ namespace, name }: JobKey) => ({ path: { name }, query: { namespace } });

export function useJob(key: JobKey) {
  return useQuery({
    queryKey: ['job', key],
    queryFn: ({ signal }) => answered(client.GET('/api/trainjobs/{name}', { params: where(key), signal })),
    refetchInterval: (query) => pauseOf(query.state.data),
  });
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

export function useJobMetrics(job: Schemas['JobDetail']) {
  const key = { namespace: job.namespace, name: job.name };
  return useQuery({
    queryKey: ['job', key, 'metrics'],
    refetchInterval: isFinished(job.state) ? false : 5_000,
    queryFn: ({ signal }) =>
      answered(client.GET('/api/trainjobs/{name}/metrics', { params: where(key), signal })),
  });
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
