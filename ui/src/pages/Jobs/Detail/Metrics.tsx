import { Anchor, Card, MultiSelect, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { IconGitCompare } from '@tabler/icons-react';
import { useMemo } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useSearchParams } from 'react-router';

import { Curve, type Series } from '@/components/Curve';
import { isFinished } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { type JobKey, useJobs, useJobUsage } from '@/services/jobs';

import { Curves } from './Curves';

/** Curves of everything the job reports, and beside them those of other jobs to compare with. */
export function Metrics({ jobKey, job }: { jobKey: JobKey; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  // In the address, so that it can be shared and is there after a reload.
  const [search, setSearch] = useSearchParams();
  const compared = search.get('with') ?? '';
  const others = useMemo(() => compared.split(',').filter(Boolean), [compared]);
  const { namespace, name } = jobKey;
  const jobs = useJobs({ namespace });
  const keys = useMemo(
    () => [name, ...others].map((one) => ({ namespace, name: one })),
    [namespace, name, others],
  );
  return (
    <Stack>
      <Curves jobs={keys} live={!isFinished(job.state)}>
        <MultiSelect
          size="xs"
          w={{ base: '100%', xs: 320 }}
          aria-label={t('metrics.compare')}
          placeholder={others.length === 0 ? t('metrics.compare') : ''}
          data={(jobs.data?.items ?? []).map((one) => one.name).filter((one) => one !== name)}
          value={others}
          onChange={(next) => setSearch(next.length === 0 ? {} : { with: next.join(',') }, { replace: true })}
          nothingFoundMessage={t('metrics.noOther')}
          leftSection={<IconGitCompare size={15} />}
          searchable
          clearable
        />
        {others.length > 0 && (
          <Anchor component={Link} size="sm" to={ROUTES.compared(keys)}>
            {t('compare.settings')}
          </Anchor>
        )}
      </Curves>
      {(job.metrics_left_out ?? 0) > 0 && (
        <Text size="xs" c="dimmed">
          {t('metrics.leftOut', { count: job.metrics_left_out ?? 0 })}
        </Text>
      )}
      <UsageCharts job={job} />
    </Stack>
  );
}

/** What the nodes really used, where the server measures it. */
function UsageCharts({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const usage = useJobUsage(job);
  const charts = useMemo(() => {
    const all = usage.data?.series ?? [];
    const of = (read: (point: Schemas['UsagePoint']) => number | null | undefined): Series[] =>
      all
        .map((one) => ({
          label: `#${one.worker ?? 0}`,
          points: one.points.flatMap((point) => {
            const y = read(point);
            return y == null ? [] : [{ x: Date.parse(point.time), y }];
          }),
        }))
        .filter((one) => one.points.length > 0);
    return [
      { key: 'cpu' as const, series: of((point) => point.cpu) },
      { key: 'memory' as const, series: of((point) => point.memory / 2 ** 30) },
      { key: 'gpu' as const, series: of((point) => point.gpu) },
    ].filter((chart) => chart.series.length > 0);
  }, [usage.data]);
  if (charts.length === 0) return null;
  return (
    <>
      <Title order={3} size="h5" mt="xs">
        {t('metrics.usage')}
      </Title>
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        {charts.map((chart) => (
          <Card key={chart.key} padding="sm" data-usage={chart.key}>
            <Curve
              title={t(`metrics.${chart.key}`)}
              series={chart.series}
              smoothing={0}
              group="usage"
              time
              xLabel={t('metrics.time')}
            />
          </Card>
        ))}
      </SimpleGrid>
    </>
  );
}
