import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { forgetAll } from '@/libs/own';
import { ROUTES } from '@/routes';

import { answered, client } from './client';

export function useWhoAmI() {
  return useQuery({
    queryKey: ['whoami'],
    queryFn: () => answered(client.GET('/api/whoami')),
    staleTime: 60_000,
  });
}

/** How one can sign in here; asked before anybody is. */
export function useSignInMethods() {
  return useQuery({
    queryKey: ['sign-in'],
    queryFn: () => answered(client.GET('/api/session')),
    staleTime: 60_000,
  });
}

/** Where the provider's sign-in begins; it comes back to a path of the page. */
export function providerUrl(path: string): string {
  return `/api/oidc/login?${new URLSearchParams({ return_to: path }).toString()}`;
}

export function useSignIn() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (token: string) => answered(client.POST('/api/session', { body: { token } })),
    onSuccess: () => queries.clear(),
  });
}

export function useSignOut() {
  return useMutation({
    mutationFn: () => answered(client.DELETE('/api/session')),
    // The document is reloaded: nothing of the former user is left in it, nor the way back to their page.
    onSettled: () => {
      forgetAll();
      window.location.replace(ROUTES.login);
    },
  });
}
