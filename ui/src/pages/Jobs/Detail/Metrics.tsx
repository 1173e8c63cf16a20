import {
  Card,
  Group,
  MultiSelect,
  SegmentedControl,
  SimpleGrid,
  Slider,
  Stack,
  Text,
  Title,
} from '@mantine/core';
import { useQueries } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Curve, type Series } from '@/components/Curve';
import { Empty } from '@/components/Empty';
import { answered, client, type Schemas } from '@/services/client';
import { type JobKey, useJobs, useJobUsage } from '@/services/jobs';

/** Curves of everything the job reports, one per worker, and beside them those of other jobs to compare with. */
export function Metrics({ jobKey, job }: { jobKey: JobKey; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const [smoothing, setSmoothing] = useState(0);
  const [axis, setAxis] = useState<'step' | 'time'>('step');
  const [others, setOthers] = useState<string[]>([]);
  const jobs = useJobs({ namespace: jobKey.namespace });
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
      refetchInterval: 5_000,
    })),
    combine: dataOf,
  });
  const charts = useMemo(() => chartsOf(names, loaded, axis), [names, loaded, axis]);

  return (
    <Stack>
      <Group align="flex-end" gap="lg">
        <MultiSelect
          w={320}
          label={t('metrics.compare')}
          data={(jobs.data?.items ?? []).map((job) => job.name).filter((name) => name !== jobKey.name)}
          value={others}
          onChange={setOthers}
          searchable
          clearable
          maxValues={6}
        />
        <Stack gap={2} w={200}>
          <Text size="sm" id="smoothing">
            {t('metrics.smoothing')}
          </Text>
          <Slider
            min={0}
            max={0.95}
            step={0.05}
            value={smoothing}
            onChange={setSmoothing}
            thumbLabel={t('metrics.smoothing')}
            label={null}
          />
        </Stack>
        <SegmentedControl
          aria-label={t('metrics.axis')}
          data={[
            { value: 'step', label: t('metrics.step') },
            { value: 'time', label: t('metrics.time') },
          ]}
          value={axis}
          onChange={(value) => setAxis(value as 'step' | 'time')}
        />
      </Group>
      {charts.length === 0 ? (
        <Empty title={t('metrics.none')}>{t('metrics.noneHint')}</Empty>
      ) : (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          {charts.map((chart) => (
            <Card key={chart.name} withBorder padding="xs" data-metric={chart.name}>
              <Curve
                title={chart.name}
                series={chart.series}
                smoothing={smoothing}
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
      <Title order={3} size="h5">
        {t('metrics.usage')}
      </Title>
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        {charts.map((chart) => (
          <Card key={chart.key} withBorder padding="xs" data-usage={chart.key}>
            <Curve
              title={t(`metrics.${chart.key}`)}
              series={chart.series}
              smoothing={0}
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

function chartsOf(names: string[], loaded: (Schemas['Metric'][] | undefined)[], axis: 'step' | 'time') {
  const charts = new Map<string, Series[]>();
  names.forEach((name, index) => {
    for (const metric of loaded[index] ?? []) {
      const workers = [...new Set((metric.points ?? []).map((point) => point.worker))].sort((a, b) => a - b);
      for (const worker of workers) {
        const points = (metric.points ?? [])
          .filter((point) => point.worker === worker)
          .map((point, order) => ({
            x: axis === 'time' ? Date.parse(point.time) : (point.step ?? order),
            y: point.value,
          }));
        const label = names.length > 1 ? `${name} #${worker}` : `#${worker}`;
        charts.set(metric.name, [...(charts.get(metric.name) ?? []), { label, points }]);
      }
    }
  });
  return [...charts].map(([name, series]) => ({ name, series }));
}
