import { Group, Skeleton, Stack } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { CodeEditor } from '@/components/CodeEditor';
import { CopyText } from '@/components/CopyText';
import { ErrorNote } from '@/components/ErrorNote';
import { type JobKey, useManifest } from '@/services/jobs';

/** The job as YAML, as kubectl would apply it. */
export function Manifest({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const manifest = useManifest(jobKey);
  if (manifest.error !== null)
    return <ErrorNote error={manifest.error} onRetry={() => void manifest.refetch()} />;
  if (manifest.data === undefined) return <Skeleton h="64vh" />;
  return (
    <Stack gap="xs">
      <Group>
        <CopyText text={manifest.data} />
      </Group>
      <CodeEditor value={manifest.data} language="yaml" label={t('job.manifest')} height="60vh" />
    </Stack>
  );
}
