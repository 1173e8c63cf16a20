import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';

import { frameworksOf } from '@/libs/frameworks';

import { useChange } from './change';
import { answered, ask, client, type Schemas } from './client';

export function useNodes() {
  return useQuery({
    queryKey: ['nodes'],
    queryFn: () => answered(client.GET('/api/nodes')),
    refetchInterval: 5_000,
  });
}

export function useMachineUsage(name: string) {
  return useQuery({
    queryKey: ['nodes', name, 'usage'],
    queryFn: () => answered(client.GET('/api/nodes/{name}/usage', { params: { path: { name } } })),
    refetchInterval: 10_000,
    retry: false,
  });
}

export function useQueue() {
  return useQuery({
    queryKey: ['queue'],
    queryFn: () => answered(client.GET('/api/queue')),
    refetchInterval: 5_000,
  });
}

export function useRuntimes() {
  return useQuery({ queryKey: ['runtimes'], queryFn: () => answered(client.GET('/api/runtimes')) });
}

export function useRuntimeManifest(name: string) {
  return useQuery({
    queryKey: ['runtimes', name, 'manifest'],
    queryFn: () =>
      answered(client.GET('/api/runtimes/{name}/manifest', { params: { path: { name } }, parseAs: 'text' })),
    retry: false,
  });
}

export function useCopyRuntime() {
  return useChange(
    ({ name, copy }: { name: string; copy: string }) =>
      answered(
        client.POST('/api/runtimes/{name}/copy', { params: { path: { name } }, body: { name: copy } }),
      ),
    ['runtimes'],
  );
}

/** The frameworks that there are runtimes for. */
export function useFrameworks() {
  const { data } = useRuntimes();
  return useMemo(() => frameworksOf(data), [data]);
}

export function useSetMaxRestarts() {
  return useChange(
    ({ name, maxRestarts }: { name: string; maxRestarts: number }) =>
      answered(
        client.PUT('/api/runtimes/{name}/max-restarts', {
          params: { path: { name } },
          body: { max_restarts: maxRestarts },
        }),
      ),
    ['runtimes'],
  );
}

/** The priorities that administrators named, the highest first. */
export function usePriorities() {
  return useQuery({
    queryKey: ['priorities'],
    queryFn: () => answered(client.GET('/api/priorities')),
    staleTime: 60_000,
  });
}

export function useNamespaces() {
  return useQuery({ queryKey: ['namespaces'], queryFn: () => answered(client.GET('/api/namespaces')) });
}

export function useClaims(namespace: string) {
  return useQuery({
    queryKey: ['claims', namespace],
    enabled: namespace !== '',
    queryFn: () => answered(client.GET('/api/volumes', { params: { query: { namespace } } })),
  });
}

/** The names of a namespace's secrets; their values cannot be read. */
export function useSecrets(namespace: string) {
  return useQuery({
    queryKey: ['secrets', namespace],
    enabled: namespace !== '',
    retry: false,
    queryFn: () => answered(client.GET('/api/secrets', { params: { query: { namespace } } })),
  });
}

export function useCreateClaim() {
  return useChange(
    (body: Schemas['ClaimRequest']) => answered(client.POST('/api/volumes', { body })),
    ['claims'],
  );
}

export function useVersion() {
  return useQuery({
    queryKey: ['version'],
    queryFn: () => ask<Record<string, unknown>>('GET', '/api/version'),
    staleTime: 60_000,
  });
}

export function useCluster() {
  return useQuery({
    queryKey: ['cluster'],
    queryFn: () => answered(client.GET('/api/cluster')),
    staleTime: 30_000,
  });
}
