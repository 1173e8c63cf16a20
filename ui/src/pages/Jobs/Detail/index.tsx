import { ActionIcon, Badge, CopyButton, Group, Skeleton, Stack, Tabs, Title, Tooltip } from '@mantine/core';
import {
  IconBolt,
  IconChartLine,
  IconCheck,
  IconCode,
  IconCopy,
  IconFileText,
  IconLayoutDashboard,
  IconTerminal2,
} from '@tabler/icons-react';
import { lazy, Suspense, useEffect, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useParams } from 'react-router';

import { Crumbs } from '@/components/Crumbs';
import { ErrorNote } from '@/components/ErrorNote';
import { NotFound } from '@/components/NotFound';
import { StateBadge } from '@/components/StateBadge';
import { shownState } from '@/libs/state';
import { ROUTES } from '@/routes';
import { isMissing } from '@/services/client';
import { useJob, useLiveJobs } from '@/services/jobs';

import { Actions } from './Actions';
import { FailureNote, StalledNote, WaitingNote } from './Notes';
import classes from './Detail.module.css';
import { Overview } from './Overview';

const logs = () => import('./Logs').then((tab) => ({ default: tab.Logs }));
const metrics = () => import('./Metrics').then((tab) => ({ default: tab.Metrics }));
const Logs = lazy(logs);
const Metrics = lazy(metrics);
const Events = lazy(() => import('./Events').then((tab) => ({ default: tab.Events })));
const Code = lazy(() => import('./Code').then((tab) => ({ default: tab.Code })));
const Advanced = lazy(() => import('./Advanced').then((tab) => ({ default: tab.Advanced })));

const TABS = ['overview', 'logs', 'metrics', 'events', 'code', 'advanced'] as const;
const ICONS = {
  overview: IconLayoutDashboard,
  logs: IconTerminal2,
  metrics: IconChartLine,
  events: IconBolt,
  code: IconCode,
  advanced: IconFileText,
} as const;

/** One job: what it does, why it waits or failed, its nodes, logs, curves, events, code and YAML. */
export function JobDetail() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const { namespace = '', name = '', '*': rest = '' } = useParams();
  const tab = TABS.find((one) => one === rest) ?? 'overview';
  const key = { namespace, name };
  const job = useJob(key);
  useLiveJobs();
  useSoonWanted();

  if (isMissing(job.error)) return <NotFound what="job" name={name} />;

  return (
    <Stack gap="md">
      <div>
        <Crumbs
          steps={[
            [t('nav.jobs'), ROUTES.jobs],
            [namespace, `${ROUTES.jobs}?namespace=${namespace}`],
          ]}
        />
        <Group justify="space-between" align="center" mih={34}>
          <Group gap="xs">
            <Title order={2} style={{ overflowWrap: 'anywhere' }}>
              {name}
            </Title>
            <Copy name={name} />
            {job.data !== undefined ? (
              <StateBadge state={shownState(job.data)} />
            ) : (
              job.error === null && <Skeleton h={20} w={80} />
            )}
            {job.data?.kind !== undefined && job.data.kind !== 'TrainJob' && (
              <Badge color="gray">{job.data.kind}</Badge>
            )}
            {job.data?.archived === true && <Badge color="gray">{t('jobs.archived')}</Badge>}
          </Group>
          {job.data !== undefined && <Actions job={job.data} />}
        </Group>
      </div>
      {job.error !== null && <ErrorNote error={job.error} onRetry={() => void job.refetch()} />}
      {job.data?.failure != null && <FailureNote failure={job.data.failure} job={job.data} />}
      {job.data?.stalled != null && <StalledNote stall={job.data.stalled} job={job.data} />}
      {job.data?.waiting != null && <WaitingNote waiting={job.data.waiting} jobKey={key} />}
      <Tabs
        value={tab}
        onChange={(next) =>
          void navigate(ROUTES.job.path(namespace, name, next === 'overview' ? '' : (next ?? '')))
        }
      >
        <Tabs.List mb="md" className={classes.tabs}>
          {TABS.map((one) => (
            <Tab key={one} value={one} active={one === tab} />
          ))}
        </Tabs.List>
        <Suspense fallback={<Skeleton h="50vh" />}>
          <Tabs.Panel value="overview">
            {tab === 'overview' && job.data !== undefined && (
              <Overview job={job.data} read={job.dataUpdatedAt} />
            )}
            {tab === 'overview' && job.data === undefined && job.error === null && <Placeholder />}
          </Tabs.Panel>
          <Tabs.Panel value="logs">
            {tab === 'logs' && job.data !== undefined && <Logs job={job.data} />}
          </Tabs.Panel>
          <Tabs.Panel value="metrics">
            {tab === 'metrics' && job.data !== undefined && <Metrics jobKey={key} job={job.data} />}
          </Tabs.Panel>
          <Tabs.Panel value="events">{tab === 'events' && <Events jobKey={key} />}</Tabs.Panel>
          <Tabs.Panel value="code">{tab === 'code' && <Code jobKey={key} />}</Tabs.Panel>
          <Tabs.Panel value="advanced">{tab === 'advanced' && <Advanced jobKey={key} />}</Tabs.Panel>
        </Suspense>
      </Tabs>
    </Stack>
  );
}

/** When the page has come to rest. */
const SOON = 800;

/** Loads what most go to next before they do. What cannot be had now is loaded when it is wanted. */
function useSoonWanted() {
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const load of [logs, metrics]) load().catch(() => undefined);
    }, SOON);
    return () => clearTimeout(timer);
  }, []);
}

function Tab({ value, active }: { value: (typeof TABS)[number]; active: boolean }) {
  const { t } = useTranslation();
  const Icon = ICONS[value];
  const element = useRef<HTMLButtonElement>(null);
  // On a phone not all of them are in sight.
  useEffect(() => {
    const { current: tab } = element;
    const list = tab?.parentElement;
    if (active && tab != null && list != null)
      list.scrollLeft = tab.offsetLeft - (list.clientWidth - tab.offsetWidth) / 2;
  }, [active]);
  return (
    <Tabs.Tab ref={element} value={value} leftSection={<Icon size={16} stroke={1.5} />}>
      {t(`job.${value}`)}
    </Tabs.Tab>
  );
}

function Copy({ name }: { name: string }) {
  const { t } = useTranslation();
  return (
    <CopyButton value={name}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? t('action.copied') : t('job.copyName')}>
          <ActionIcon variant="subtle" color="gray" size="sm" aria-label={t('job.copyName')} onClick={copy}>
            {copied ? <IconCheck size={15} /> : <IconCopy size={15} stroke={1.5} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** Of the same size as what will be there. */
function Placeholder() {
  return (
    <Stack>
      <Skeleton h={104} />
      <Group grow align="flex-start">
        <Skeleton h={300} />
        <Skeleton h={300} />
      </Group>
    </Stack>
  );
}
