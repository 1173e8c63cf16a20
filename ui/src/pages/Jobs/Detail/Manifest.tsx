import { Button, CopyButton, Group, Skeleton, Stack } from '@mantine/core';
import { IconCopy } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { CodeEditor } from '@/components/CodeEditor';
import { ErrorNote } from '@/components/ErrorNote';
import { type JobKey, useManifest } from '@/services/jobs';

/** The job as YAML, as kubectl would apply it. */
export function Manifest({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const manifest = useManifest(jobKey);
  if (manifest.error !== null)
    return <ErrorNote error={manifest.error} onRetry={() => void manifest.refetch()} />;
  if (manifest.data === undefined) return <Skeleton h="64vh" />;
  const text = manifest.data;
  return (
    <Stack gap="xs">
      <Group>
        <CopyButton value={text}>
          {({ copied, copy }) => (
            <Button size="xs" variant="default" leftSection={<IconCopy size={14} />} onClick={copy}>
              {copied ? t('action.copied') : t('action.copy')}
            </Button>
          )}
        </CopyButton>
      </Group>
      <CodeEditor value={text} language="yaml" label={t('job.manifest')} height="60vh" />
    </Stack>
  );
}
