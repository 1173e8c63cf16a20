import { Anchor, Card, Code, Grid, Group, Progress, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Facts } from '@/components/Facts';
import { Section } from '@/components/Section';
import { Moment } from '@/components/Time';
import { HIDDEN, withoutSecrets } from '@/libs/own';
import { asSentence, useSaying, useSize, useStep } from '@/libs/saying';
import { isFinished, isPlain } from '@/libs/state';
import { duration } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobForm } from '@/services/jobs';

import classes from './Detail.module.css';
import { Headline } from './Headline';
import { Nodes } from './Nodes';
import { Timeline } from './Timeline';
import { Written } from './Written';

type Job = Schemas['JobDetail'];

export function Overview({ job, read }: { job: Job; read: number }) {
  return (
    <Stack>
      <Card>
        {job.progress != null && <Training job={job} progress={job.progress} />}
        <Timeline job={job} read={read} />
      </Card>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Nodes job={job} />
          <Headline job={job} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Stack>
            <Details job={job} />
            <Written job={job} />
          </Stack>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

/** How far the training is, and the last value of each metric. */
function Training({ job, progress }: { job: Job; progress: Schemas['Progress'] }) {
  const { t } = useTranslation();
  const step = useStep();
  const left = isFinished(job.state) ? null : progress.remaining_seconds;
  return (
    <div style={{ marginBottom: 20 }}>
      <Group justify="space-between" mb={8} className="numbers">
        <Text fw={600} size="sm">
          {step(progress) || t('jobs.progress')}
        </Text>
        <Text size="sm" c="dimmed">
          {Math.floor(progress.percent)} %
          {left != null && ` · ${t('jobs.left', { time: duration(left * 1000) })}`}
        </Text>
      </Group>
      <Progress
        value={progress.percent}
        size={8}
        color={job.state === 'Complete' ? 'green.7' : job.state === 'Failed' ? 'gray.6' : 'indigo.6'}
        aria-label={t('jobs.progress')}
      />
      {job.metrics.length > 0 && (
        <Group mt={10} gap="lg" className="numbers">
          {job.metrics.slice(0, 6).map((metric) => (
            <span key={metric.name} className={classes.metric}>
              <Text span c="dimmed" fz="inherit">
                {metric.name}
              </Text>
              {typeof metric.value === 'number' ? (
                <b>{Number(metric.value.toPrecision(5))}</b>
              ) : (
                <Text span fw={700} fz="inherit" c="red.7">
                  {metric.value}
                </Text>
              )}
            </span>
          ))}
        </Group>
      )}
    </div>
  );
}

function Details({ job }: { job: Job }) {
  const { t } = useTranslation();
  const say = useSaying();
  const sizeOf = useSize();
  const form = useJobForm(job).data;
  // As it was typed, where that is known; the container's own has the shell around it.
  const command = (form?.command ?? job.command.join(' ')).trim();
  const variables = withoutSecrets(
    (form?.env_vars ?? []).map(({ name, value }) => ({ name, value: value ?? '' })),
    HIDDEN,
  );
  const lineage: [string, string[]][] = [
    [t('job.origin'), job.origin == null ? [] : [job.origin]] as [string, string[]],
    [t('job.repeatedAs'), job.repeated_as ?? []] as [string, string[]],
  ].filter(([, jobs]) => jobs.length > 0);
  const facts: [string, ReactNode][] = [
    // What is said at the top is not said again, nor what the state says.
    ...(job.failure == null && job.waiting == null && !isPlain(job)
      ? [[t('job.message'), asSentence(say(job)) || '–'] as [string, ReactNode]]
      : []),
    [t('jobs.user'), job.user ?? '–'],
    [t('job.runtime'), job.runtime || job.kind],
    [t('job.image'), job.image ?? '–'],
    [t('job.perNode'), sizeOf(job.per_node)],
    [
      t('job.restarts'),
      job.max_restarts == null ? String(job.restarts) : `${job.restarts} / ${job.max_restarts}`,
    ],
    [t('jobs.created'), <Moment key="created" time={job.created_at} />],
    [t('job.started'), <Moment key="started" time={job.started_at} />],
    [t('job.completed'), <Moment key="completed" time={job.completed_at} />],
    [
      t('job.cost'),
      usedOf(job.usage)
        .map(([what, hours]) => t(`job.costOf.${what}`, { hours }))
        .join(', ') || '–',
    ],
    ...lineage.map(([name, jobs]) => [name, <JobLinks key={name} jobs={jobs} />] as [string, ReactNode]),
    ...(variables.length > 0
      ? [
          [t('submit.environment'), variables.map(({ name, value }) => `${name}=${value}`).join('\n')] as [
            string,
            ReactNode,
          ],
        ]
      : []),
    ...((form?.volumes ?? []).length > 0
      ? [
          [
            t('submit.volumes'),
            (form?.volumes ?? [])
              .map(
                (one) => `${one.mountPath} ← ${one.pvc ?? one.hostPath ?? one.configMap ?? one.memory ?? ''}`,
              )
              .join('\n'),
          ] as [string, ReactNode],
        ]
      : []),
    [
      t('job.command'),
      command === '' ? (
        '–'
      ) : (
        <Code key="command" block mah={160} tabIndex={0} aria-label={t('job.command')} role="region">
          {command}
        </Code>
      ),
    ],
  ];
  return (
    <Section title={t('job.details')}>
      <Facts facts={facts} />
    </Section>
  );
}

/** Jobs as `namespace/name`, each leading there. */
function JobLinks({ jobs }: { jobs: string[] }) {
  return jobs.map((job) => {
    const [namespace = '', name = ''] = job.split('/');
    return (
      <Anchor key={job} component={Link} to={ROUTES.job.path(namespace, name)} size="sm" display="block">
        {name}
      </Anchor>
    );
  });
}

/** What it used any of. */
function usedOf(usage: Schemas['Usage']) {
  const all = [
    ['cpu', usage.cpu_core_hours],
    ['memory', usage.memory_gib_hours],
    ['gpu', usage.gpu_hours],
  ] as const;
  return all
    .filter(([, hours]) => hours > 0)
    .map(([what, hours]) => [what, hours < 0.01 ? '< 0.01' : String(Number(hours.toPrecision(3)))] as const);
}
