import { useMutation, useQuery } from '@tanstack/react-query';

import { useChange } from './change';
import { answered, client, type Schemas } from './client';

export function useTokens() {
  return useQuery({ queryKey: ['tokens'], queryFn: () => answered(client.GET('/api/tokens')) });
}

export function useCreateToken() {
  return useChange((body: Schemas['NewToken']) => answered(client.POST('/api/tokens', { body })), ['tokens']);
}

export function useRevokeToken() {
  return useChange(
    (id: string) => answered(client.DELETE('/api/tokens/{id}', { params: { path: { id } } })),
    ['tokens'],
  );
}

export function useUsers() {
  return useQuery({ queryKey: ['users'], queryFn: () => answered(client.GET('/api/users')) });
}

export function useAddUser() {
  return useChange(
    (body: Schemas['NewUser']) => answered(client.POST('/api/users', { body })),
    ['users'],
    ['namespaces'],
  );
}

export function useRemoveUser() {
  return useChange(
    (name: string) => answered(client.DELETE('/api/users/{name}', { params: { path: { name } } })),
    ['users'],
  );
}

export function useSetQuota() {
  return useChange(
    ({ namespace, hard }: { namespace: string; hard: Record<string, string> }) =>
      answered(
        client.PUT('/api/namespaces/{name}/quota', { params: { path: { name: namespace } }, body: { hard } }),
      ),
    ['namespaces'],
  );
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
  return useChange(
    (body: Schemas['WebhookRequest']) =>
      answered(client.POST('/api/webhooks', { params: { query: { namespace } }, body })),
    ['webhooks'],
  );
}

export function useDeleteWebhook() {
  return useChange(
    (id: string) => answered(client.DELETE('/api/webhooks/{id}', { params: { path: { id } } })),
    ['webhooks'],
  );
}

export function useTestWebhook() {
  return useMutation({
    mutationFn: (id: string) =>
      answered(client.POST('/api/webhooks/{id}/test', { params: { path: { id } } })),
  });
}
