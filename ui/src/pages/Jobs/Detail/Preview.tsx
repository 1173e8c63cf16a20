import { Skeleton, Text } from '@mantine/core';
import { useMemo } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { PodsPreview } from '@/components/PodsPreview';
import { type JobKey, useJobForm, usePreview } from '@/services/jobs';

/** What the job's settings become with its runtime as it is now, pod by pod. */
export function Preview({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const form = useJobForm(jobKey);
  // A form for another job has no name yet; here it is this job's.
  const request = useMemo(
    () => (form.data === undefined ? undefined : { ...form.data, name: jobKey.name }),
    [form.data, jobKey.name],
  );
  const preview = usePreview(request);
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
