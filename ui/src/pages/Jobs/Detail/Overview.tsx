import {
  Badge,
  Card,
  Code,
  Grid,
  Group,
  Progress,
  SimpleGrid,
  Stack,
  Table,
  Text,
  Title,
  Tooltip,
} from '@mantine/core';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import { amounts } from '@/libs/amounts';
import { between, duration, moment } from '@/libs/time';
import type { Schemas } from '@/services/client';

type Job = Schemas['JobDetail'];

export function Overview({ job }: { job: Job }) {
  const { t } = useTranslation();
  return (
    <Stack>
      {job.progress != null && (
        <Card withBorder>
          <Group justify="space-between" mb={6}>
            <Text fw={600}>{job.progress.step}</Text>
            <Text size="sm">
              {job.progress.percent.toFixed(0)} %
              {job.progress.remaining_seconds != null &&
                ` · ${t('jobs.left', { time: duration(job.progress.remaining_seconds * 1000) })}`}
            </Text>
          </Group>
          <Progress value={job.progress.percent} aria-label={t('jobs.progress')} />
        </Card>
      )}
      <Timeline timeline={job.timeline} />
      <Grid>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Facts job={job} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Nodes nodes={job.nodes} />
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

/** Where the time went: waiting, starting, training. */
function Timeline({ timeline }: { timeline: Schemas['Timeline'] }) {
  const { t } = useTranslation();
  const parts = [
    { label: t('job.queued'), seconds: timeline.queued_seconds, color: 'gray' },
    { label: t('job.starting'), seconds: timeline.starting_seconds, color: 'yellow' },
    { label: t('job.training'), seconds: timeline.training_seconds, color: 'blue' },
  ].filter((part) => part.seconds != null);
  const total = Math.max(
    1,
    parts.reduce((sum, part) => sum + (part.seconds ?? 0), 0),
  );
  if (parts.length === 0) return null;
  return (
    <Card withBorder>
      <Title order={3} size="h5" mb="xs">
        {t('job.timeline')}
      </Title>
      <Progress.Root size="lg" aria-label={t('job.timeline')}>
        {parts.map((part) => (
          <Tooltip key={part.label} label={`${part.label}: ${duration((part.seconds ?? 0) * 1000)}`}>
            <Progress.Section
              value={((part.seconds ?? 0) / total) * 100}
              color={part.color}
              aria-label={part.label}
            />
          </Tooltip>
        ))}
      </Progress.Root>
      <Group mt={6} gap="lg">
        {parts.map((part) => (
          <Group key={part.label} gap={6}>
            <Badge circle size="xs" color={part.color} />
            <Text size="xs">
              {part.label} {duration((part.seconds ?? 0) * 1000)}
            </Text>
          </Group>
        ))}
      </Group>
    </Card>
  );
}

function Facts({ job }: { job: Job }) {
  const { t, i18n } = useTranslation();
  const rows: [string, ReactNode][] = [
    [t('job.message'), job.message],
    [t('jobs.user'), job.user ?? '–'],
    [t('job.runtime'), job.runtime],
    [t('job.image'), job.image ?? '–'],
    [
      t('job.command'),
      <Code key="command" block mah={140} tabIndex={0} aria-label={t('job.command')} role="region">
        {job.command.join(' ') || '–'}
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

function nodeColor(state: string): string {
  if (state === 'Running') return 'blue';
  if (state === 'Succeeded') return 'green';
  return state === 'Pending' ? 'gray' : 'red';
}

/** The nodes as a grid: with hundreds of them, the one that differs stands out. */
function Nodes({ nodes }: { nodes: Schemas['JobNode'][] }) {
  const { t } = useTranslation();
  return (
    <Card withBorder>
      <Title order={3} size="h5" mb="xs">
        {t('job.nodes', { count: nodes.length })}
      </Title>
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 3 }} spacing="xs">
        {nodes.map((node) => (
          <Card key={node.pod} withBorder padding="xs" data-worker={node.worker}>
            <Group justify="space-between" gap={4}>
              <Text size="sm" fw={600}>
                {node.role === 'node' ? t('job.worker', { worker: node.worker }) : node.role}
              </Text>
              <Badge size="sm" variant="light" color={nodeColor(node.state)} tt="none">
                {node.state}
              </Badge>
            </Group>
            <Text size="xs" c="dimmed" style={{ wordBreak: 'break-all' }}>
              {node.pod}
            </Text>
            <Text size="xs" c="dimmed">
              {[node.machine, node.address, between(node.started_at, node.finished_at)]
                .filter(Boolean)
                .join(' · ')}
            </Text>
            {(node.exit_code != null || node.restarts > 0) && (
              <Text size="xs">
                {node.exit_code != null && t('job.exit', { code: node.exit_code })}
                {node.restarts > 0 && ` · ${t('jobs.restarts', { count: node.restarts })}`}
              </Text>
            )}
            {node.message != null && node.state !== 'Succeeded' && (
              <Text size="xs" c="red" lineClamp={3} title={node.message}>
                {node.message}
              </Text>
            )}
          </Card>
        ))}
      </SimpleGrid>
    </Card>
  );
}
