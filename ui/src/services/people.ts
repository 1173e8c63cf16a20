import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { answered, ask, client, type Schemas } from './client';

export interface Token {
  id: string;
  user: string;
  name: string;
  created_at?: string | null;
  expires_at?: string | null;
  expired: boolean;
  current: boolean;
}

export function useTokens() {
  return useQuery({ queryKey: ['tokens'], retry: false, queryFn: () => ask<Token[]>('GET', '/api/tokens') });
}

export function useCreateToken() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: { name: string; expires_in_seconds?: number }) =>
      ask<Token & { token: string }>('POST', '/api/tokens', body),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['tokens'] }),
  });
}

export function useRevokeToken() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (id: string) => ask<unknown>('DELETE', `/api/tokens/${encodeURIComponent(id)}`),
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

export const WEBHOOK_EVENTS = ['completed', 'failed', 'restarted'] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

export interface Webhook {
  id: string;
  namespace: string;
  url: string;
  events: WebhookEvent[];
  pending: number;
  last_delivered_at?: string | null;
  last_error?: string | null;
  secret?: string | null;
}

const at = (namespace: string) => `?${new URLSearchParams({ namespace }).toString()}`;

export function useWebhooks(namespace: string) {
  return useQuery({
    queryKey: ['webhooks', namespace],
    retry: false,
    queryFn: () => ask<Webhook[]>('GET', `/api/webhooks${at(namespace)}`),
  });
}

export function useCreateWebhook(namespace: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (body: { url: string; events: WebhookEvent[] }) =>
      ask<Webhook>('POST', `/api/webhooks${at(namespace)}`, body),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['webhooks'] }),
  });
}

export function useDeleteWebhook(namespace: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (id: string) =>
      ask<unknown>('DELETE', `/api/webhooks/${encodeURIComponent(id)}${at(namespace)}`),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['webhooks'] }),
  });
}

export function useTestWebhook(namespace: string) {
  return useMutation({
    mutationFn: (id: string) =>
      ask<{ delivered: boolean; status?: number | null; error?: string | null }>(
        'POST',
        `/api/webhooks/${encodeURIComponent(id)}/test${at(namespace)}`,
      ),
  });
}
