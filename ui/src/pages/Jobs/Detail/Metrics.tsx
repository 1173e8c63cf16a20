import {
  Card,
  Group,
  MultiSelect,
  SegmentedControl,
  SimpleGrid,
  Skeleton,
  Slider,
  Stack,
  Text,
  Title,
} from '@mantine/core';
import { IconChartLine, IconGitCompare } from '@tabler/icons-react';
import { useQueries } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Curve, type Series } from '@/components/Curve';
import { Empty } from '@/components/Empty';
import { isFinished } from '@/libs/state';
import { answered, client, type Schemas } from '@/services/client';
import { type JobKey, useJobs, useJobUsage } from '@/services/jobs';

import { chartsOf } from './charts';

/** Curves of everything the job reports, one per worker, and beside them those of other jobs to compare with. */
export function Metrics({ jobKey, job }: { jobKey: JobKey; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const [smoothing, setSmoothing] = useState(0);
  const [axis, setAxis] = useState<'step' | 'time'>('step');
  const [others, setOthers] = useState<string[]>([]);
  const jobs = useJobs({ namespace: jobKey.namespace });
  const live = !isFinished(job.state);
  const names = useMemo(() => [jobKey.name, ...others], [jobKey.name, others]);
  const loaded = useQueries({
    queries: names.map((name) => ({
      queryKey: ['job', { namespace: jobKey.namespace, name }, 'metrics'],
      queryFn: () =>
        answered(
          client.GET('/api/trainjobs/{name}/metrics', {
            params: { path: { name }, query: { namespace: jobKey.namespace } },
          }),
        ),
      refetchInterval: live ? 5_000 : (false as const),
    })),
    combine: dataOf,
  });
  const charts = useMemo(() => chartsOf(names, loaded, axis), [names, loaded, axis]);

  return (
    <Stack>
      <Group gap="lg" justify="space-between">
        <Group gap="sm">
          <MultiSelect
            size="xs"
            w={{ base: '100%', xs: 320 }}
            aria-label={t('metrics.compare')}
            placeholder={others.length === 0 ? t('metrics.compare') : ''}
            data={(jobs.data?.items ?? []).map((one) => one.name).filter((name) => name !== jobKey.name)}
            value={others}
            onChange={setOthers}
            nothingFoundMessage={t('metrics.noOther')}
            leftSection={<IconGitCompare size={15} />}
            searchable
            clearable
            maxValues={6}
          />
          <SegmentedControl
            size="xs"
            aria-label={t('metrics.axis')}
            data={[
              { value: 'step', label: t('metrics.step') },
              { value: 'time', label: t('metrics.time') },
            ]}
            value={axis}
            onChange={(value) => setAxis(value as 'step' | 'time')}
          />
        </Group>
        <Group gap="sm" wrap="nowrap">
          <Text size="xs" c="dimmed">
            {t('metrics.smoothing')}
          </Text>
          <Slider
            w={140}
            size="sm"
            min={0}
            max={0.95}
            step={0.05}
            value={smoothing}
            onChange={setSmoothing}
            thumbLabel={t('metrics.smoothing')}
            label={(value) => value.toFixed(2)}
          />
          <Text size="xs" w={28} className="numbers">
            {smoothing.toFixed(2)}
          </Text>
        </Group>
      </Group>
      {loaded[0] === undefined ? (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          <Skeleton h={270} />
          <Skeleton h={270} />
        </SimpleGrid>
      ) : charts.length === 0 ? (
        <Empty title={t('metrics.none')} icon={IconChartLine}>
          {t('metrics.noneHint')}
        </Empty>
      ) : (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          {charts.map((chart) => (
            <Card key={chart.name} padding="sm" data-metric={chart.name}>
              <Curve
                title={chart.name}
                series={chart.series}
                smoothing={smoothing}
                group={axis}
                time={axis === 'time'}
                xLabel={axis === 'time' ? t('metrics.time') : t('metrics.step')}
              />
            </Card>
          ))}
        </SimpleGrid>
      )}
      {charts.length > 0 && (
        <Text size="xs" c="dimmed">
          {t('metrics.hint')}
        </Text>
      )}
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

/** Stable, so that equal answers do not draw the charts anew. */
function dataOf<T>(answers: { data?: T | undefined }[]): (T | undefined)[] {
  return answers.map((answer) => answer.data);
}
