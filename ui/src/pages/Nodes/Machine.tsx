import { Anchor, Badge, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { useTranslation } from 'react-i18next';
import { Link, useParams } from 'react-router';

import { Crumbs } from '@/components/Crumbs';
import { ErrorNote } from '@/components/ErrorNote';
import { Facts } from '@/components/Facts';
import { NotFound } from '@/components/NotFound';
import { Section } from '@/components/Section';
import { UsageCharts } from '@/components/UsageCharts';
import { bytes, cores } from '@/libs/amounts';
import { JobCards } from '@/pages/Jobs/JobCards';
import { JobTable } from '@/pages/Jobs/JobTable';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobs, useLiveJobs } from '@/services/jobs';
import { useMachineUsage, useNodes } from '@/services/places';

import { Use } from './Use';

/** One machine: what it is, how full it is, what it used over the last day, and what runs and ran on it. */
export function Machine() {
  const { t } = useTranslation();
  const { name = '' } = useParams();
  const nodes = useNodes();
  const usage = useMachineUsage(name);
  const node = nodes.data?.find((one) => one.name === name);
  useLiveJobs();
  if (nodes.data !== undefined && node === undefined) return <NotFound what="node" name={name} />;
  return (
    <Stack>
      <div>
        <Crumbs steps={[[t('nav.nodes'), ROUTES.nodes]]} />
        <Group gap="xs" mih={34}>
          <Title order={2} style={{ overflowWrap: 'anywhere' }}>
            {name}
          </Title>
          {node !== undefined && (
            <Badge color={node.ready ? 'green' : 'red'}>
              {node.ready ? t('nodes.ready') : t('nodes.notReady')}
            </Badge>
          )}
        </Group>
        {node?.message != null && !node.ready && (
          <Text size="sm" c="dimmed" lang="en">
            {node.message}
          </Text>
        )}
      </div>
      {nodes.error !== null && <ErrorNote error={nodes.error} onRetry={() => void nodes.refetch()} />}
      {node === undefined ? <Skeleton h={160} /> : <About node={node} />}
      <UsageCharts usage={usage.data} name={name} />
      <Ran machine={name} />
    </Stack>
  );
}

function About({ node }: { node: Schemas['NodeInfo'] }) {
  const { t } = useTranslation();
  const { capacity, used } = node;
  return (
    <Section title={t('job.details')}>
      <Facts
        facts={[
          ['CPU', <Use key="cpu" label="CPU" used={used.cpu} total={capacity.cpu} text={cores} />],
          [
            t('nodes.memory'),
            <Use
              key="memory"
              label={t('nodes.memory')}
              used={used.memory}
              total={capacity.memory}
              text={bytes}
            />,
          ],
          ['GPU', <Use key="gpu" label="GPU" used={used.gpu} total={node.gpu_count} text={String} />],
          [t('nodes.instance'), node.instance_type ?? '–'],
          [t('nodes.zone'), node.zone ?? '–'],
          [t('nodes.arch'), node.architecture],
          [
            t('nodes.os'),
            <span key="os" lang="en">
              {node.os}
            </span>,
          ],
          [t('nodes.capacity'), node.capacity_type ?? '–'],
        ]}
      />
    </Section>
  );
}

/** The newest jobs that have a node there, or had one; those that were deleted, too. */
function Ran({ machine }: { machine: string }) {
  const { t } = useTranslation();
  const narrow = useMediaQuery('(max-width: 48em)', false, { getInitialValueInEffect: false });
  const jobs = useJobs({ machine, archived: true, limit: 20 });
  const { items, total = 0 } = jobs.data ?? {};
  const Shown = narrow ? JobCards : JobTable;
  return (
    <>
      <Group justify="space-between" mt="xs">
        <Title order={3} size="h5">
          {t('nodes.ran')}
        </Title>
        {items !== undefined && total > items.length && (
          <Anchor component={Link} size="sm" to={`${ROUTES.jobs}?machine=${machine}&history=1`}>
            {t('nodes.allJobs', { count: total })}
          </Anchor>
        )}
      </Group>
      {jobs.error !== null && <ErrorNote error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {items?.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t('nodes.ranNothing')}
        </Text>
      ) : (
        <Shown jobs={items} read={jobs.dataUpdatedAt} />
      )}
    </>
  );
}
