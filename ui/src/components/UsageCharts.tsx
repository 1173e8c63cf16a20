import { Card, SimpleGrid, Title } from '@mantine/core';
import { useMemo } from 'react';
import { useTranslation } from 'react-i18next';

import type { Series } from '@/libs/plot';
import type { Schemas } from '@/services/client';

import { Curve } from './Curve';

interface Props {
  usage: Schemas['UsageOverTime'] | undefined;
  /** What a series without a worker is called. */
  name?: string;
}

/** What nodes or a machine really used, where the server measures it. */
export function UsageCharts({ usage, name = '' }: Props) {
  const { t } = useTranslation();
  const charts = useMemo(() => {
    const of = (read: (point: Schemas['UsagePoint']) => number | null | undefined): Series[] =>
      (usage?.series ?? [])
        .map((one) => ({
          label: one.worker == null ? name : `#${one.worker}`,
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
  }, [usage, name]);
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
              fromZero
              xLabel={t('metrics.time')}
            />
          </Card>
        ))}
      </SimpleGrid>
    </>
  );
}
