import { Group, Text, Title, Tooltip } from '@mantine/core';
import { Trans, useTranslation } from 'react-i18next';

import { Running } from '@/components/Time';
import { isFinished } from '@/libs/state';
import { duration, moment } from '@/libs/time';
import type { Schemas } from '@/services/client';
import { useLogAttempts } from '@/services/logs';

import classes from './Detail.module.css';

interface Part {
  key: string;
  label: string;
  seconds: number;
  color: string;
  from?: string | undefined;
}

/** Where the time went: waiting, starting, training, and each attempt after a restart. */
export function Timeline({ job, read }: { job: Schemas['JobDetail']; read: number }) {
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
  const over = isFinished(job.state) || (job.archived ?? false);
  return (
    <section aria-label={t('job.timeline')}>
      <Group justify="space-between" mb={8}>
        <Title order={3} size="h5">
          {t('job.timeline')}
        </Title>
        <Text size="sm" c="dimmed" className="numbers">
          {over ? (
            t('job.took', { time: duration(job.duration_seconds * 1000) })
          ) : (
            <Trans
              i18nKey="job.soFar"
              components={{ time: <Running seconds={job.duration_seconds} since={read} /> }}
            />
          )}
        </Text>
      </Group>
      {total > 0 && (
        <div className={classes.bar} aria-hidden>
          {parts.map((part) => (
            <Tooltip key={part.key} label={`${part.label} · ${duration(part.seconds * 1000)}`}>
              <div
                className={classes.part}
                style={{ flexGrow: part.seconds / total, background: part.color }}
              />
            </Tooltip>
          ))}
        </div>
      )}
      <Group mt={10} gap="lg" component="ol" p={0} m={0} style={{ listStyle: 'none' }} className="numbers">
        {parts.map((part) => (
          <li key={part.key} data-phase={part.key}>
            <Group
              gap={6}
              wrap="nowrap"
              title={part.from === undefined ? undefined : moment(part.from, i18n.language)}
            >
              <span className={classes.dot} style={{ background: part.color }} />
              <Text size="xs">
                {part.label}{' '}
                <Text span c="dimmed" fz="inherit">
                  {duration(part.seconds * 1000)}
                </Text>
              </Text>
            </Group>
          </li>
        ))}
      </Group>
    </section>
  );
}

const WAITING = 'var(--mantine-color-gray-5)';
const STARTING = 'var(--mantine-color-yellow-5)';
const TRAINING = ['blue-6', 'cyan-7', 'indigo-5', 'violet-5'].map((shade) => `var(--mantine-color-${shade})`);

/** The phases in order; with several attempts the training is split where each of them began. */
export function partsOf(
  job: Pick<Schemas['JobDetail'], 'timeline' | 'completed_at' | 'created_at'>,
  starts: string[],
  now = Date.now(),
): Omit<Part, 'label'>[] {
  const { queued_seconds: queued, starting_seconds: starting, training_seconds: training } = job.timeline;
  const parts: Omit<Part, 'label'>[] = [];
  if (queued != null) parts.push({ key: 'queued', seconds: queued, color: WAITING, from: job.created_at });
  if (starting != null) parts.push({ key: 'starting', seconds: starting, color: STARTING });
  if (training == null && starts.length < 2) return parts;
  if (starts.length < 2) {
    parts.push({ key: 'training', seconds: training ?? 0, color: TRAINING[0] ?? STARTING });
    return parts;
  }
  const end = job.completed_at == null ? now : Date.parse(job.completed_at);
  starts.forEach((from, index) => {
    const next = starts[index + 1];
    const until = next === undefined ? end : Date.parse(next);
    parts.push({
      key: `attempt${index + 1}`,
      seconds: Math.max(0, (until - Date.parse(from)) / 1000),
      color: TRAINING[index % TRAINING.length] ?? STARTING,
      from,
    });
  });
  return parts;
}
