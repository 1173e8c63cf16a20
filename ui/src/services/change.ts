import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';

/** A change on the server, after which what it touches is read again. */
export function useChange<Input, Output>(change: (input: Input) => Promise<Output>, ...touched: QueryKey[]) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => {
      for (const queryKey of touched) void queries.invalidateQueries({ queryKey });
    },
  });
}
