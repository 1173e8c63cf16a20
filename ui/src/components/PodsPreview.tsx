import { Select, Text } from '@mantine/core';
import { lazy, Suspense, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { amounts } from '@/libs/amounts';
import type { Schemas } from '@/services/client';

const CodeEditor = lazy(() => import('./CodeEditor').then((module) => ({ default: module.CodeEditor })));

/** The pods that come of a job: how many of which kind, what each needs, and one of each, every line with its origin. */
export function PodsPreview({ preview, height }: { preview: Schemas['Preview']; height: string }) {
  const { t } = useTranslation();
  const roles = [...new Set(preview.pods.map((pod) => pod.role))];
  const [wanted, setWanted] = useState('node');
  const role = roles.includes(wanted) ? wanted : (roles[0] ?? '');
  const first = preview.pods.find((pod) => pod.role === role && pod.yaml != null);
  const size = first === undefined ? '' : amounts(first.needs);
  return (
    <>
      <Select
        size="xs"
        aria-label={t('preview.role')}
        data={roles.map((one) => ({
          value: one,
          label: t('preview.podsOf', {
            role: one,
            count: preview.pods.filter((pod) => pod.role === one).length,
          }),
        }))}
        value={role}
        onChange={(value) => setWanted(value ?? 'node')}
        allowDeselect={false}
      />
      <Text size="xs" c="dimmed" my={6}>
        {size !== '' && t('preview.each', { needs: size })} {t('preview.originHint')}
      </Text>
      <Suspense fallback={<div style={{ height }} />}>
        <CodeEditor value={first?.yaml ?? ''} language="yaml" label={t('preview.pods')} height={height} />
      </Suspense>
    </>
  );
}
