import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { answered, client, type Schemas } from './client';

export function useTokens() {
  return useQuery({ queryKey: ['tokens'], queryFn: () => answered(client.GET('/api/tokens')) });
}

export function useCreateToken() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas['NewToken']) => answered(client.POST('/api/tokens', { body })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['tokens'] }),
  });
}

export function useRevokeToken() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => answered(client.DELETE('/api/tokens/{id}', { params: { path: { id } } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['tokens'] }),
  });
}

export function useUsers() {
  return useQuery({ queryKey: ['users'], queryFn: () => answered(client.GET('/api/users')) });
}

export function useAddUser() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas['NewUser']) => answered(client.POST('/api/users', { body })),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ['users'] });
      void queries.invalidateQueries({ queryKey: ['namespaces'] });
    },
  });
}

export function useRemoveUser() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (name: string) =>
      answered(client.DELETE('/api/users/{name}', { params: { path: { name } } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['users'] }),
  });
}

export function useSetQuota() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ namespace, hard }: { namespace: string; hard: Record<string, string> }) =>
      answered(
        client.PUT('/api/namespaces/{name}/quota', { params: { path: { name: namespace } }, body: { hard } }),
      ),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['namespaces'] }),
  });
}

/** What a webhook can be told about; a test is sent on request only. */
export const WEBHOOK_EVENTS = ['completed', 'failed', 'restarted'] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

export function useWebhooks(namespace: string) {
  return useQuery({
    queryKey: ['webhooks', namespace],
    queryFn: () => answered(client.GET('/api/webhooks', { params: { query: { namespace } } })),
  });
}

export function useCreateWebhook(namespace: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: Schemas['WebhookRequest']) =>
      answered(client.POST('/api/webhooks', { params: { query: { namespace } }, body })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['webhooks'] }),
  });
}

export function useDeleteWebhook() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => answered(client.DELETE('/api/webhooks/{id}', { params: { path: { id } } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['webhooks'] }),
  });
}

export function useTestWebhook() {
  return useMutation({
    mutationFn: (id: string) =>
      answered(client.POST('/api/webhooks/{id}/test', { params: { path: { id } } })),
  });
}
