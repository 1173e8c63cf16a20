import { Skeleton, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { PodsPreview } from '@/components/PodsPreview';
import { cloneOf, type JobKey, usePreview } from '@/services/jobs';

/** What the job's settings become with its runtime as it is now, pod by pod. */
export function Preview({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const form = useQuery({ queryKey: ['job', jobKey, 'form'], queryFn: () => cloneOf(jobKey) });
  const preview = usePreview(form.data);
  const error = form.error ?? preview.error;
  if (error !== null) return <ErrorNote error={error} onRetry={() => void form.refetch()} />;
  if (preview.data === undefined) return <Skeleton h="64vh" />;
  return (
    <>
      <Text size="sm" c="dimmed" mb="xs">
        {t('preview.ofJob')}
      </Text>
      <PodsPreview preview={preview.data} height="56vh" />
    </>
  );
}
