import { Group, Skeleton, Text } from '@mantine/core';
import { Link } from 'react-router';

import { StateBadge } from '@/components/StateBadge';
import { Ago } from '@/components/Time';
import { isFinished, shownState } from '@/libs/state';
import { ROUTES } from '@/routes';

import { Duration, type Job, JobProgress, LastValue, Message, useOrigin } from './cells';
import classes from './Jobs.module.css';

/** The jobs on a narrow screen: one card for each, without the table's columns. */
export function JobCards({ jobs, read }: { jobs: Job[] | undefined; read: number }) {
  const originOf = useOrigin();
  if (jobs === undefined)
    return (
      <div className="table">
        {Array.from({ length: 4 }, (_, index) => (
          <div key={index} className={classes.card}>
            <Skeleton h={12} w="60%" mb={10} />
            <Skeleton h={10} w="85%" />
          </div>
        ))}
      </div>
    );
  return (
    <div className="table">
      {jobs.map((job) => (
        <Link
          key={job.uid}
          to={ROUTES.job.path(job.namespace, job.name)}
          className={classes.card}
          data-job={job.name}
        >
          <Group justify="space-between" wrap="nowrap" gap="xs" mb={2}>
            <Text fw={600} truncate>
              {job.name}
            </Text>
            <StateBadge state={shownState(job)} />
          </Group>
          <Message job={job} />
          {!isFinished(job.state) && <JobProgress job={job} />}
          <LastValue job={job} />
          <Group gap={6} mt={4} fz={12} c="dimmed">
            <span>{originOf(job)}</span>·<Duration job={job} read={read} />·
            <Ago time={job.created_at} />
          </Group>
        </Link>
      ))}
    </div>
  );
}
