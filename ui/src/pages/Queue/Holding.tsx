import { Anchor, Skeleton, Table, Text, Title } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { useSize } from '@/libs/saying';
import { duration } from '@/libs/time';
import { Duration, JobProgress } from '@/pages/Jobs/cells';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobs } from '@/services/jobs';

/** The jobs that have the room that others wait for, the one that should end first at the top. */
export function Holding() {
  const { t } = useTranslation();
  const jobs = useJobs({ state: 'Running', limit: 200 });
  const items = (jobs.data?.items ?? []).toSorted((one, other) => leftOf(one) - leftOf(other));
  return (
    <>
      <div>
        <Title order={3} size="h5" mt="xs">
          {t('queue.running')}
        </Title>
        <Text size="sm" c="dimmed">
          {jobs.data !== undefined && items.length === 0 ? t('queue.nothingRuns') : t('queue.runningHint')}
        </Text>
      </div>
      {jobs.error !== null && <ErrorNote error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.data === undefined && jobs.error === null && <Skeleton h={120} />}
      {items.length > 0 && (
        <div className="table gives">
          <Table.ScrollContainer minWidth={640} type="native">
            <Table>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t('queue.job')}</Table.Th>
                  <Table.Th visibleFrom="sm">{t('jobs.user')}</Table.Th>
                  <Table.Th visibleFrom="sm">{t('queue.holds')}</Table.Th>
                  <Table.Th w={{ base: 110, sm: 180 }}>{t('jobs.progress')}</Table.Th>
                  <Table.Th>{t('queue.left')}</Table.Th>
                  <Table.Th visibleFrom="sm">{t('jobs.duration')}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {items.map((job) => (
                  <Row key={job.uid} job={job} read={jobs.dataUpdatedAt} />
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </div>
      )}
    </>
  );
}

function Row({ job, read }: { job: Schemas['JobSummary']; read: number }) {
  const sizeOf = useSize();
  const left = leftOf(job);
  const { cpu, memory, gpu } = job.per_node;
  const nodes = job.num_nodes;
  return (
    <Table.Tr data-holds={job.name}>
      <Table.Td style={{ overflowWrap: 'anywhere' }}>
        <Anchor component={Link} to={ROUTES.job.path(job.namespace, job.name)} fw={550} fz="sm" c="inherit">
          {job.name}
        </Anchor>
        <Text size="xs" c="dimmed">
          {job.namespace}
        </Text>
      </Table.Td>
      <Table.Td visibleFrom="sm">{job.user ?? '–'}</Table.Td>
      <Table.Td style={{ whiteSpace: 'nowrap' }} visibleFrom="sm">
        {sizeOf({ cpu: cpu * nodes, memory: memory * nodes, gpu: gpu * nodes })}
      </Table.Td>
      <Table.Td>
        <JobProgress
          job={{ ...job, progress: job.progress && { ...job.progress, remaining_seconds: null } }}
        />
      </Table.Td>
      <Table.Td className="numbers">{Number.isFinite(left) ? duration(left * 1000) : '–'}</Table.Td>
      <Table.Td className="numbers" style={{ whiteSpace: 'nowrap' }} visibleFrom="sm">
        <Duration job={job} read={read} />
      </Table.Td>
    </Table.Tr>
  );
}

/** The seconds until it should end, where it says so. */
function leftOf(job: Schemas['JobSummary']): number {
  return job.progress?.remaining_seconds ?? Infinity;
}
