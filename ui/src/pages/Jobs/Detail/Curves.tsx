import { Card, Group, SegmentedControl, SimpleGrid, Skeleton, Slider, Text } from '@mantine/core';
import { IconChartLine } from '@tabler/icons-react';
import { keepPreviousData, useQueries } from '@tanstack/react-query';
import { type ReactNode, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Curve } from '@/components/Curve';
import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { isMissing } from '@/services/client';
import { type JobKey, metricsOf, type Zoom } from '@/services/jobs';

import { chartsOf, namesOf, WORKERS, type Workers } from './charts';

interface Props {
  /** The same array at every drawing. */
  jobs: JobKey[];
  live: boolean;
  /** What stands before the controls. */
  children?: ReactNode;
}

/** A chart for each metric with the curves of all jobs in it, and how they are drawn. */
export function Curves({ jobs, live, children }: Props) {
  const { t } = useTranslation();
  const [smoothing, setSmoothing] = useState(0);
  const [axis, setAxis] = useState<'step' | 'time'>('step');
  const [workers, setWorkers] = useState<Workers>('mean');
  // The server knows more points of a part than of the whole.
  const [zoom, setZoom] = useState<Zoom>();
  const { loaded, pending, error } = useQueries({
    queries: jobs.map((key) => ({
      ...metricsOf(key, live, zoom),
      placeholderData: keepPreviousData,
    })),
    combine: answersOf,
  });
  const names = useMemo(() => namesOf(jobs), [jobs]);
  const charts = useMemo(
    () => chartsOf(names, loaded, { axis, workers, mean: t('metrics.mean') }),
    [names, loaded, axis, workers, t],
  );
  const several = loaded.some((metrics) =>
    metrics?.some((metric) => metric.points?.some((point) => point.worker !== metric.points?.[0]?.worker)),
  );

  return (
    <>
      <Group gap="lg" justify="space-between">
        <Group gap="sm">
          {children}
          <SegmentedControl
            size="xs"
            aria-label={t('metrics.axis')}
            data={[
              { value: 'step', label: t('metrics.step') },
              { value: 'time', label: t('metrics.time') },
            ]}
            value={axis}
            onChange={(value) => {
              setAxis(value as 'step' | 'time');
              setZoom(undefined);
            }}
          />
          {several && (
            <SegmentedControl
              size="xs"
              aria-label={t('metrics.workers')}
              data={WORKERS.map((value) => ({ value, label: t(`metrics.of.${value}`) }))}
              value={workers}
              onChange={(value) => setWorkers(value as Workers)}
            />
          )}
        </Group>
        <Smoothing value={smoothing} onChange={setSmoothing} />
      </Group>
      {error !== null && <ErrorNote error={error} />}
      {pending ? (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          <Skeleton h={270} />
          <Skeleton h={270} />
        </SimpleGrid>
      ) : charts.length === 0 ? (
        error === null && (
          <Empty title={t('metrics.none')} icon={IconChartLine}>
            {t('metrics.noneHint')}
          </Empty>
        )
      ) : (
        <>
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
                  onPart={(part) => setZoom(part && { axis, ...part })}
                />
              </Card>
            ))}
          </SimpleGrid>
          <Text size="xs" c="dimmed">
            {t('metrics.hint')}
          </Text>
        </>
      )}
    </>
  );
}

function Smoothing({ value, onChange }: { value: number; onChange: (value: number) => void }) {
  const { t } = useTranslation();
  return (
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
        value={value}
        onChange={onChange}
        thumbLabel={t('metrics.smoothing')}
        label={(part) => part.toFixed(2)}
      />
      <Text size="xs" w={28} className="numbers">
        {value.toFixed(2)}
      </Text>
    </Group>
  );
}

interface Answer<T> {
  data?: T | undefined;
  isPending: boolean;
  error: Error | null;
}

/** What there is, while none is there and some may come, and what went wrong, if it is not that a job is gone. */
function answersOf<T>(answers: Answer<T>[]) {
  const loaded = answers.map((answer) => answer.data);
  return {
    loaded,
    pending: loaded.every((data) => data === undefined) && answers.some((answer) => answer.isPending),
    error: answers.map((answer) => answer.error).find((error) => error !== null && !isMissing(error)) ?? null,
  };
}
