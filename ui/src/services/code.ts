import { useMutation, useQuery } from '@tanstack/react-query';

import { type File, packed, unpacked } from '@/libs/tar';

import { answered, client, type Schemas } from './client';
import type { JobKey } from './jobs';

/** The files that a job runs or ran; also after it is gone. */
export function useJobCode({ namespace, name }: JobKey) {
  return useQuery({
    queryKey: ['code', { namespace, name }],
    // What a job runs never changes.
    staleTime: Infinity,
    queryFn: async ({ signal }) => {
      const archive = await answered(
        client.GET('/api/trainjobs/{name}/code', {
          params: { path: { name }, query: { namespace } },
          parseAs: 'blob',
          signal,
        }),
      );
      const files = await unpacked(archive as unknown as Blob);
      return files.toSorted((a, b) => a.path.localeCompare(b.path));
    },
  });
}

export function codeUrl({ namespace, name }: JobKey): string {
  return `/api/trainjobs/${name}/code?${new URLSearchParams({ namespace }).toString()}`;
}

/** Stores a folder for jobs of a namespace; what is there already is not stored again. */
export function useUpload() {
  return useMutation({
    mutationFn: async ({ namespace, files }: { namespace: string; files: File[] }) => {
      const archive = await packed(files);
      return answered(
        client.POST('/api/snapshots', {
          params: { query: { namespace } },
          body: archive as unknown as never,
          bodySerializer: (body: unknown) => body as Blob,
          headers: { 'content-type': 'application/octet-stream' },
        }),
      );
    },
  });
}

export function useSnapshot(digest: string, namespace: string) {
  return useQuery({
    queryKey: ['snapshot', digest, namespace],
    enabled: digest !== '' && namespace !== '',
    retry: false,
    queryFn: (): Promise<Schemas['SnapshotInfo']> =>
      answered(client.GET('/api/snapshots/{digest}', { params: { path: { digest }, query: { namespace } } })),
  });
}
