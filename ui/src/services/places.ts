import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { answered, ask, client, type Schemas } from './client';

export function useNodes() {
  return useQuery({
    queryKey: ['nodes'],
    queryFn: () => answered(client.GET('/api/nodes')),
    refetchInterval: 5_000,
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

export function useSetMaxRestarts() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ name, maxRestarts }: { name: string; maxRestarts: number }) =>
      answered(
        client.PUT('/api/runtimes/{name}/max-restarts', {
          params: { path: { name } },
          body: { max_restarts: maxRestarts },
        }),
      ),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['runtimes'] }),
  });
}

export function usePresets() {
  return useQuery({
    queryKey: ['presets'],
    queryFn: () => answered(client.GET('/api/presets')),
    staleTime: Infinity,
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

export function useCreateClaim() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas['ClaimRequest']) => answered(client.POST('/api/volumes', { body })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['claims'] }),
  });
}

export function useVersion() {
  return useQuery({
    queryKey: ['version'],
    queryFn: () => ask<Record<string, unknown>>('GET', '/api/version'),
    staleTime: 60_000,
  });
}
