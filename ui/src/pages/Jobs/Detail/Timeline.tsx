import { Badge, Card, Group, Progress, Text, Title, Tooltip } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { isFinished } from '@/libs/state';
import { duration, moment } from '@/libs/time';
import type { Schemas } from '@/services/client';
import { useLogAttempts } from '@/services/logs';

interface Part {
  key: string;
  label: string;
  seconds: number;
  color: string;
  from?: string | undefined;
}

/** Where the time went: waiting, starting, training, and each attempt after a restart. */
export function Timeline({ job }: { job: Schemas['JobDetail'] }) {
  const { t, i18n } = useTranslation();
  const attempts = useLogAttempts(job, job.restarts);
  const starts = (attempts.data ?? [])
    .flatMap((attempt) => attempt.started_at ?? [])
    .toSorted((a, b) => Date.parse(a) - Date.parse(b));
  const parts = partsOf(job, starts).map((part) => ({
    ...part,
    label: part.key.startsWith('attempt')
      ? t('job.attempt', { number: part.key.slice(7) })
      : t(`job.${part.key as 'queued' | 'starting' | 'training'}`),
  }));
  const total = parts.reduce((sum, part) => sum + part.seconds, 0);
  if (parts.length === 0) return null;
  return (
    <Card withBorder>
      <Group justify="space-between" mb="xs">
        <Title order={3} size="h5">
          {t('job.timeline')}
        </Title>
        <Text size="sm" c="dimmed">
          {t(isFinished(job.state) ? 'job.took' : 'job.soFar', {
            time: duration(job.duration_seconds * 1000),
          })}
        </Text>
      </Group>
      <Progress.Root size="xl" role="img" aria-label={t('job.timeline')}>
        {parts.map((part) => (
          <Tooltip key={part.key} label={`${part.label}: ${duration(part.seconds * 1000)}`}>
            <Progress.Section
              // Nothing is too short to be seen.
              value={Math.max(1.5, (part.seconds / Math.max(1, total)) * 100)}
              color={part.color}
              aria-label={part.label}
              style={{ borderRight: '2px solid var(--mantine-color-body)' }}
            />
          </Tooltip>
        ))}
      </Progress.Root>
      <Group mt={8} gap="lg" component="ol" p={0} m={0} style={{ listStyle: 'none' }}>
        {parts.map((part) => (
          <li key={part.key} data-phase={part.key}>
            <Group gap={6} wrap="nowrap">
              <Badge circle size="xs" color={part.color} />
              <Text size="xs" title={part.from === undefined ? undefined : moment(part.from, i18n.language)}>
                {part.label} {duration(part.seconds * 1000)}
              </Text>
            </Group>
          </li>
        ))}
      </Group>
    </Card>
  );
}

const TRAINING = ['blue.7', 'cyan.8', 'indigo.7', 'violet.7'];

/** The phases in order; with several attempts the training is split where each of them began. */
export function partsOf(
  job: Pick<Schemas['JobDetail'], 'timeline' | 'completed_at' | 'created_at'>,
  starts: string[],
  now = Date.now(),
): Omit<Part, 'label'>[] {
  const { queued_seconds: queued, starting_seconds: starting, training_seconds: training } = job.timeline;
  const parts: Omit<Part, 'label'>[] = [];
  if (queued != null) parts.push({ key: 'queued', seconds: queued, color: 'gray.6', from: job.created_at });
  if (starting != null) parts.push({ key: 'starting', seconds: starting, color: 'yellow.6' });
  if (training == null && starts.length < 2) return parts;
  if (starts.length < 2) {
    parts.push({ key: 'training', seconds: training ?? 0, color: 'blue.7' });
    return parts;
  }
  const end = job.completed_at == null ? now : Date.parse(job.completed_at);
  starts.forEach((from, index) => {
    const next = starts[index + 1];
    const until = next === undefined ? end : Date.parse(next);
    parts.push({
      key: `attempt${index + 1}`,
      seconds: Math.max(0, (until - Date.parse(from)) / 1000),
      color: TRAINING[index % TRAINING.length] ?? 'blue.7',
      from,
    });
  });
  return parts;
}
