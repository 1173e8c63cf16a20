import { useQueryClient } from '@tanstack/react-query';
import { useSyncExternalStore } from 'react';

import { ApiError, UNREACHABLE } from './client';

/** Whether the server answered when it was last asked: the page says so rather than showing old data as if it were new. */
export function useConnection(): boolean {
  const cache = useQueryClient().getQueryCache();
  return useSyncExternalStore(
    (changed) => cache.subscribe(changed),
    () =>
      !cache
        .getAll()
        .some((query) => query.isActive() && isLost(query.state.error ?? query.state.fetchFailureReason)),
  );
}

/** Whether it was no answer of the server. */
export function isLost(error: unknown): boolean {
  return error instanceof ApiError && (error.status === UNREACHABLE || error.status >= 502);
}
