import { Anchor, Breadcrumbs, Group, Loader, Stack, Tabs, Text, Title } from '@mantine/core';
import { lazy, Suspense } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate, useParams } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { StateBadge } from '@/components/StateBadge';
import { ROUTES } from '@/routes';
import { useJob, useLiveJobs } from '@/services/jobs';

import { Actions } from './Actions';
import { FailureNote, WaitingNote } from './Notes';
import { Overview } from './Overview';

const Logs = lazy(() => import('./Logs').then((tab) => ({ default: tab.Logs })));
const Metrics = lazy(() => import('./Metrics').then((tab) => ({ default: tab.Metrics })));
const Events = lazy(() => import('./Events').then((tab) => ({ default: tab.Events })));
const Preview = lazy(() => import('./Preview').then((tab) => ({ default: tab.Preview })));
const Manifest = lazy(() => import('./Manifest').then((tab) => ({ default: tab.Manifest })));

const TABS = ['overview', 'logs', 'metrics', 'events', 'manifest', 'preview'] as const;

/** One job: what it does, why it waits or failed, its nodes, logs, curves, events and YAML. */
export function JobDetail() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const { namespace = '', name = '', '*': rest = '' } = useParams();
  const tab = TABS.find((one) => one === rest) ?? 'overview';
  const key = { namespace, name };
  const job = useJob(key);
  useLiveJobs();

  return (
    <Stack gap="md">
      <Breadcrumbs>
        <Anchor component={Link} to={ROUTES.jobs} size="sm">
          {t('nav.jobs')}
        </Anchor>
        <Text size="sm">{namespace}</Text>
      </Breadcrumbs>
      <Group justify="space-between" align="flex-start">
        <Group gap="sm">
          <Title order={2} style={{ wordBreak: 'break-all' }}>
            {name}
          </Title>
          {job.data !== undefined && <StateBadge state={job.data.state} />}
        </Group>
        {job.data !== undefined && <Actions job={job.data} />}
      </Group>
      {job.error !== null && <ErrorNote error={job.error} onRetry={() => void job.refetch()} />}
      {job.data?.failure != null && <FailureNote failure={job.data.failure} jobKey={key} />}
      {job.data?.waiting != null && <WaitingNote waiting={job.data.waiting} />}
      <Tabs
        value={tab}
        onChange={(next) =>
          void navigate(ROUTES.job.path(namespace, name, next === 'overview' ? '' : (next ?? '')))
        }
      >
        <Tabs.List mb="md">
          {TABS.map((one) => (
            <Tabs.Tab key={one} value={one}>
              {t(`job.${one}`)}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Suspense fallback={<Loader size="sm" />}>
          <Tabs.Panel value="overview">{job.data !== undefined && <Overview job={job.data} />}</Tabs.Panel>
          <Tabs.Panel value="logs">
            {tab === 'logs' && job.data !== undefined && <Logs job={job.data} />}
          </Tabs.Panel>
          <Tabs.Panel value="metrics">
            {tab === 'metrics' && job.data !== undefined && <Metrics jobKey={key} job={job.data} />}
          </Tabs.Panel>
          <Tabs.Panel value="events">{tab === 'events' && <Events jobKey={key} />}</Tabs.Panel>
          <Tabs.Panel value="preview">{tab === 'preview' && <Preview jobKey={key} />}</Tabs.Panel>
          <Tabs.Panel value="manifest">{tab === 'manifest' && <Manifest jobKey={key} />}</Tabs.Panel>
        </Suspense>
      </Tabs>
    </Stack>
  );
}
