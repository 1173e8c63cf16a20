import { Group, Progress, Text, Tooltip } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { Sparkline } from '@/components/Sparkline';
import { StateBadge } from '@/components/StateBadge';
import { Running } from '@/components/Time';
import { asSentence, useFailedBy, useSaying } from '@/libs/saying';
import { isFinished, isPlain, shownState } from '@/libs/state';
import { duration } from '@/libs/time';
import type { Schemas } from '@/services/client';

import classes from './Jobs.module.css';

export type Job = Schemas['JobSummary'];

/** Where it belongs and what it runs with. */
export function useOrigin(): (job: Job) => string {
  const { t } = useTranslation();
  return (job) =>
    [
      job.namespace,
      job.framework ?? job.runtime,
      job.kind !== undefined && job.kind !== 'TrainJob' && job.kind,
      job.archived && t('jobs.archived'),
    ]
      .filter(Boolean)
      .join(' · ');
}

/** What the state does not say by itself; of a failure, its cause in its own words. */
export function Message({ job }: { job: Job }) {
  const say = useSaying();
  const why = useFailedBy();
  const text = job.failed_by != null ? why(job) : isPlain(job) ? '' : asSentence(say(job));
  if (text === '') return null;
  return (
    // An exception speaks for itself, in its own language.
    <div
      className={classes.message}
      title={text}
      {...(job.failed_by?.kind === 'python_exception' && { lang: 'en' })}
    >
      {text}
    </div>
  );
}

export function StateLine({ job }: { job: Job }) {
  return (
    <>
      <StateBadge state={shownState(job)} />
      <Message job={job} />
    </>
  );
}

export function JobProgress({ job }: { job: Job }) {
  const { t } = useTranslation();
  if (job.progress == null) return null;
  const { percent, remaining_seconds: left } = job.progress;
  const running = !isFinished(job.state) && left != null;
  return (
    <>
      <Progress
        value={percent}
        size={5}
        color={job.state === 'Complete' ? 'green.7' : job.state === 'Failed' ? 'gray.6' : 'indigo.6'}
        aria-label={t('jobs.progress')}
        mb={3}
      />
      <div className={classes.quiet}>
        {Math.floor(percent)} %{running && ` · ${t('jobs.left', { time: duration(left * 1000) })}`}
      </div>
    </>
  );
}

/** The last loss, or what else the job reports, and the way there. */
export function LastValue({ job }: { job: Job }) {
  if (job.headline == null) return null;
  const { name, value, curve } = job.headline;
  const finite = typeof value === 'number';
  return (
    <Group gap={8} wrap="nowrap" data-headline={name} title={name}>
      <div style={{ minWidth: 0 }}>
        <Text span fz="inherit" fw={550} className="numbers" {...(!finite && { c: 'red.7' })}>
          {finite ? Number(value.toPrecision(4)) : value}
        </Text>
        <div className={classes.quiet}>{name}</div>
      </div>
      <span style={{ marginLeft: 'auto', display: 'flex' }}>
        <Sparkline values={curve} />
      </span>
    </Group>
  );
}

/** How many of its nodes run; of one that is over, only how many it had. */
export function NodeCount({ job }: { job: Job }) {
  const { t } = useTranslation();
  const over = isFinished(job.state);
  const words = t('jobs.nodesRun', { running: job.nodes_running, count: job.num_nodes });
  return (
    <Group gap={6} wrap="nowrap">
      <Tooltip label={over ? t('job.nodes', { count: job.num_nodes }) : words}>
        <span>{over ? job.num_nodes : `${job.nodes_running}/${job.num_nodes}`}</span>
      </Tooltip>
      {job.restarts > 0 && (
        <Tooltip label={t('jobs.restarts', { count: job.restarts })}>
          <Text size="xs" c="orange" component="span" style={{ whiteSpace: 'nowrap' }}>
            <IconRefresh size={11} aria-label={t('jobs.restarts', { count: job.restarts })} /> {job.restarts}
          </Text>
        </Tooltip>
      )}
    </Group>
  );
}

/** Its time does not go on. */
export function isStill(job: Job): boolean {
  return isFinished(job.state) || (job.archived ?? false);
}

export function Duration({ job, read }: { job: Job; read: number }) {
  return isStill(job) ? (
    <span>{duration(job.duration_seconds * 1000)}</span>
  ) : (
    <Running seconds={job.duration_seconds} since={read} />
  );
}
