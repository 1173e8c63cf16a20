import { Card, Code, Grid, Group, Progress, Stack, Table, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import { amounts } from '@/libs/amounts';
import { useSaying } from '@/libs/saying';
import { useStep } from '@/libs/step';
import { duration, moment } from '@/libs/time';
import type { Schemas } from '@/services/client';

import { Nodes } from './Nodes';
import { Timeline } from './Timeline';

type Job = Schemas['JobDetail'];

export function Overview({ job }: { job: Job }) {
  const { t } = useTranslation();
  const step = useStep();
  return (
    <Stack>
      {job.progress != null && (
        <Card withBorder>
          <Group justify="space-between" mb={6}>
            <Text fw={600}>{step(job.progress.step)}</Text>
            <Text size="sm">
              {job.progress.percent.toFixed(0)} %
              {job.progress.remaining_seconds != null &&
                ` · ${t('jobs.left', { time: duration(job.progress.remaining_seconds * 1000) })}`}
            </Text>
          </Group>
          <Progress value={job.progress.percent} aria-label={t('jobs.progress')} />
          {job.metrics.length > 0 && (
            <Group mt="xs" gap="lg">
              {job.metrics.slice(0, 6).map((metric) => (
                <Text key={metric.name} size="sm">
                  {metric.name} <b>{Number(metric.value.toPrecision(5))}</b>
                </Text>
              ))}
            </Group>
          )}
        </Card>
      )}
      <Timeline job={job} />
      <Grid>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Facts job={job} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Nodes job={job} />
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function Facts({ job }: { job: Job }) {
  const { t, i18n } = useTranslation();
  const say = useSaying();
  const rows: [string, ReactNode][] = [
    [t('job.message'), say(job)],
    [t('jobs.user'), job.user ?? '–'],
    [t('job.runtime'), job.runtime || job.kind],
    [t('job.image'), job.image ?? '–'],
    [
      t('job.command'),
      <Code key="command" block mah={140} tabIndex={0} aria-label={t('job.command')} role="region">
        {job.command.join(' ').trim() || '–'}
      </Code>,
    ],
    [t('job.perNode'), amounts(job.per_node)],
    [
      t('job.restarts'),
      job.max_restarts == null ? String(job.restarts) : `${job.restarts} / ${job.max_restarts}`,
    ],
    [t('jobs.created'), moment(job.created_at, i18n.language)],
    [t('job.started'), moment(job.started_at, i18n.language)],
    [t('job.completed'), moment(job.completed_at, i18n.language)],
    [
      t('job.cost'),
      t('job.costText', {
        cpu: job.usage.cpu_core_hours.toFixed(3),
        memory: job.usage.memory_gib_hours.toFixed(3),
        gpu: job.usage.gpu_hours.toFixed(3),
      }),
    ],
  ];
  return (
    <Card withBorder>
      <Table verticalSpacing={4} withRowBorders={false} layout="fixed">
        <Table.Tbody>
          {rows.map(([label, value]) => (
            <Table.Tr key={label}>
              <Table.Th w={130} style={{ verticalAlign: 'top', fontWeight: 500 }}>
                {label}
              </Table.Th>
              <Table.Td style={{ wordBreak: 'break-word', whiteSpace: 'pre-wrap' }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
