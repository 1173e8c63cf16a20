import { Group, Text, Title } from '@mantine/core';
import { Trans, useTranslation } from 'react-i18next';

import { Running } from '@/components/Time';
import { isFinished } from '@/libs/state';
import { duration, moment } from '@/libs/time';
import type { Schemas } from '@/services/client';

import classes from './Detail.module.css';

type Phase = Schemas['Phase'];

const COLORS: Record<Phase, string> = {
  queued: 'var(--mantine-color-gray-5)',
  starting: 'var(--mantine-color-yellow-5)',
  training: 'var(--mantine-color-blue-6)',
  restarting: 'var(--mantine-color-orange-6)',
  suspended: 'var(--mantine-color-violet-4)',
};
/** More parts than this have no room for gaps between them. */
const MANY = 60;
const SHADES = ['blue-6', 'cyan-7', 'indigo-5'];

/** Where the time went: what the job did in each moment, and how long that took together. */
export function Timeline({ job, read }: { job: Schemas['JobDetail']; read: number }) {
  const { t, i18n } = useTranslation();
  const intervals = job.timeline.intervals ?? [];
  if (intervals.length === 0) return null;
  // One that ended in the second in which it began has no part of the time, and was an attempt all the same.
  const attempts = Math.max(job.restarts + 1, ...intervals.map((one) => one.attempt));
  const labelOf = ({ phase, attempt }: Schemas['Interval']) =>
    phase === 'training' && attempts > 1 ? t('job.attempt', { number: attempt }) : t(`job.${phase}`);
  // Attempts that follow each other are told apart by their shade.
  const colorOf = ({ phase, attempt }: Schemas['Interval']) =>
    phase === 'training' ? `var(--mantine-color-${SHADES[(attempt - 1) % SHADES.length]})` : COLORS[phase];
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
          {attempts > 1 && ` · ${t('job.attempts', { count: attempts })}`}
        </Text>
      </Group>
      <div className={classes.bar} aria-hidden data-many={intervals.length > MANY || undefined}>
        {intervals.map((one) => (
          <div
            key={one.from}
            className={classes.part}
            data-interval={one.phase}
            title={`${labelOf(one)} · ${duration(lengthOf(one))} · ${moment(one.from, i18n.language)}`}
            style={{ flexGrow: Math.max(lengthOf(one), 1), background: colorOf(one) }}
          />
        ))}
      </div>
      <Group mt={10} gap="lg" component="ol" p={0} m={0} style={{ listStyle: 'none' }} className="numbers">
        {phasesOf(intervals).map(({ phase, milliseconds }) => (
          <li key={phase} data-phase={phase}>
            <Group gap={6} wrap="nowrap">
              <span className={classes.dot} style={{ background: COLORS[phase] }} />
              <Text size="xs">
                {t(`job.${phase}`)}{' '}
                <Text span c="dimmed" fz="inherit">
                  {duration(milliseconds)}
                </Text>
              </Text>
            </Group>
          </li>
        ))}
      </Group>
    </section>
  );
}

function lengthOf({ from, until }: Schemas['Interval']): number {
  return Date.parse(until) - Date.parse(from);
}

/** The time of each phase together, in the order in which they first came. */
function phasesOf(intervals: Schemas['Interval'][]) {
  const phases = new Map<Phase, number>();
  for (const one of intervals) phases.set(one.phase, (phases.get(one.phase) ?? 0) + lengthOf(one));
  return [...phases].map(([phase, milliseconds]) => ({ phase, milliseconds }));
}
