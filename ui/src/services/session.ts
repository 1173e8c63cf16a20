import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from 'react-router';

import { ROUTES } from '@/routes';

import { answered, client } from './client';

export function useWhoAmI() {
  return useQuery({
    queryKey: ['whoami'],
    queryFn: () => answered(client.GET('/api/whoami')),
    staleTime: 60_000,
  });
}

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: string) => answered(client.POST('/api/session', { body: { token } })),
    onSuccess: () => queries.clear(),
  });
}

export function useSignOut() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: () => answered(client.DELETE('/api/session')),
    onSettled: () => {
      queries.clear();
      void navigate(ROUTES.login);
    },
  });
}
