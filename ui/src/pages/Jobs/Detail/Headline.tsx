import { Anchor, Card, Skeleton } from '@mantine/core';
import { lazy, Suspense, useMemo } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobMetrics } from '@/services/jobs';

import { chartsOf, isCurve } from './charts';

const Curve = lazy(() => import('@/components/Curve').then((module) => ({ default: module.Curve })));

/** The curve that most look for first: the loss, or whatever the job reports. */
export function Headline({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const metrics = useJobMetrics(job);
  const chart = useMemo(() => {
    const [first] = chartsOf([job.name], [metrics.data], {
      axis: 'step',
      workers: 'mean',
      mean: t('metrics.mean'),
    });
    // One number is no curve: most likely a setting that was printed once.
    return first !== undefined && isCurve(first) ? first : undefined;
  }, [job.name, metrics.data, t]);
  if (
    job.metrics.length === 0 ||
    metrics.error !== null ||
    (metrics.data !== undefined && chart === undefined)
  )
    return null;
  return (
    <Card mt="md" padding="sm">
      {chart === undefined ? (
        <Skeleton h={246} />
      ) : (
        <Suspense fallback={<Skeleton h={246} />}>
          <Curve
            title={chart.name}
            series={chart.series}
            smoothing={0}
            xLabel={t('metrics.step')}
            group="overview"
          />
        </Suspense>
      )}
      <Anchor component={Link} size="sm" ml="auto" to={ROUTES.job.path(job.namespace, job.name, 'metrics')}>
        {t('job.toMetrics')}
      </Anchor>
    </Card>
  );
}
