import {
  Anchor,
  Checkbox,
  Group,
  Progress,
  Skeleton,
  Table,
  Text,
  Tooltip,
  UnstyledButton,
} from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconRefresh } from '@tabler/icons-react';
import { memo } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';

import { StateBadge } from '@/components/StateBadge';
import { Ago, Running } from '@/components/Time';
import { amounts } from '@/libs/amounts';
import { useSaying } from '@/libs/saying';
import { isFinished, shownState } from '@/libs/state';
import { duration } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJob } from '@/services/jobs';

import classes from './Jobs.module.css';

type Job = Schemas['JobSummary'];
export type Sort = 'newest' | 'oldest' | 'name' | 'state' | 'duration';

interface Props {
  /** Undefined until the first answer. */
  jobs: Job[] | undefined;
  /** When they were read, so that running times go on from there. */
  read: number;
  selected: ReadonlySet<string>;
  /** The same function at every drawing. */
  onSelect: (uids: string[], on: boolean) => void;
  sort: Sort;
  onSort: (sort: Sort) => void;
}

/** The jobs as a table. Its columns keep their width whatever arrives; on a narrow screen the less wanted ones give way. */
export function JobTable({ jobs, read, selected, onSelect, sort, onSort }: Props) {
  const { t } = useTranslation();
  const all = (jobs ?? []).filter((job) => !job.archived).map((job) => job.uid);
  const chosen = all.filter((uid) => selected.has(uid)).length;
  return (
    <div className="table">
      <Table.ScrollContainer minWidth={700} type="native">
        <Table layout="fixed" highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={40} pr={0}>
                <Checkbox
                  size="xs"
                  aria-label={t('jobs.selectAll')}
                  checked={chosen > 0 && chosen === all.length}
                  indeterminate={chosen > 0 && chosen < all.length}
                  disabled={all.length === 0}
                  onChange={(event) => onSelect(all, event.currentTarget.checked)}
                />
              </Table.Th>
              <SortHeader by="name" label={t('jobs.name')} sort={sort} onSort={onSort} />
              <SortHeader by="state" label={t('jobs.state')} sort={sort} onSort={onSort} width="21%" />
              <Table.Th w={148}>{t('jobs.progress')}</Table.Th>
              <Table.Th w={70}>{t('jobs.nodes')}</Table.Th>
              <Table.Th w={136} visibleFrom="xl">
                {t('jobs.resources')}
              </Table.Th>
              <Table.Th w={82} visibleFrom="lg">
                {t('jobs.user')}
              </Table.Th>
              <SortHeader by="duration" label={t('jobs.duration')} sort={sort} onSort={onSort} width={86} />
              <SortHeader by="newest" label={t('jobs.created')} sort={sort} onSort={onSort} width={96} />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {jobs === undefined
              ? Array.from({ length: 6 }, (_, index) => <Placeholder key={index} />)
              : jobs.map((job) => (
                  <JobRow
                    key={job.uid}
                    job={job}
                    read={isStill(job) ? 0 : read}
                    selected={selected.has(job.uid)}
                    onSelect={onSelect}
                  />
                ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </div>
  );
}

function Placeholder() {
  return (
    <Table.Tr h={57}>
      <Table.Td />
      {[70, 55, 90, 40, 80, 60, 50, 60].map((width, index) => (
        <Table.Td key={index}>
          <Skeleton h={12} w={`${width}%`} />
        </Table.Td>
      ))}
    </Table.Tr>
  );
}

/** A heading that sorts by its column; the one of the time turns around when it is pressed again. */
function SortHeader(props: {
  by: 'newest' | 'name' | 'state' | 'duration';
  label: string;
  sort: Sort;
  onSort: (sort: Sort) => void;
  width?: number | string;
}) {
  const { by, label, sort, onSort, width } = props;
  const direction =
    sort === by
      ? by === 'newest'
        ? 'descending'
        : 'ascending'
      : sort === 'oldest' && by === 'newest'
        ? 'ascending'
        : 'none';
  return (
    <Table.Th aria-sort={direction} w={width}>
      <UnstyledButton
        className={classes.sort}
        onClick={() => onSort(by === 'newest' && sort === 'newest' ? 'oldest' : by)}
      >
        {label}
        {direction === 'ascending' && <IconArrowUp size={12} />}
        {direction === 'descending' && <IconArrowDown size={12} />}
      </UnstyledButton>
    </Table.Th>
  );
}

/** Drawn anew only when the job itself has changed: a list is read again at every change of any job. */
const JobRow = memo(function JobRow(props: {
  job: Job;
  read: number;
  selected: boolean;
  onSelect: Props['onSelect'];
}) {
  const { job, read, selected, onSelect } = props;
  const { t } = useTranslation();
  const navigate = useNavigate();
  const to = ROUTES.job.path(job.namespace, job.name);
  return (
    <Table.Tr
      data-job={job.name}
      data-selected={selected || undefined}
      className={classes.row}
      style={{ cursor: 'pointer' }}
      // The whole row leads to the job; its link is what keyboards and screen readers use.
      onClick={(event) => {
        const control = (event.target as HTMLElement).closest('a, button, input, label');
        if (control === null && window.getSelection()?.isCollapsed !== false) void navigate(to);
      }}
    >
      <Table.Td pr={0}>
        <Checkbox
          size="xs"
          disabled={job.archived ?? false}
          aria-label={t('jobs.select', { name: job.name })}
          checked={selected}
          onChange={(event) => onSelect([job.uid], event.currentTarget.checked)}
        />
      </Table.Td>
      <Table.Td>
        <Anchor
          component={Link}
          to={to}
          fw={550}
          fz="sm"
          c="inherit"
          className={classes.name}
          title={job.name}
        >
          {job.name}
        </Anchor>
        <div className={classes.quiet}>{originOf(job, t)}</div>
      </Table.Td>
      <Table.Td>
        <StateLine job={job} />
      </Table.Td>
      <Table.Td>
        <JobProgress job={job} />
      </Table.Td>
      <Table.Td>
        <NodeCount job={job} />
      </Table.Td>
      <Table.Td visibleFrom="xl" className={classes.quiet} style={{ fontSize: 'inherit', color: 'inherit' }}>
        {amounts(job.per_node)}
      </Table.Td>
      <Table.Td
        visibleFrom="lg"
        className={classes.quiet}
        style={{ fontSize: 'inherit', color: 'inherit' }}
        title={job.user ?? ''}
      >
        {job.user ?? '–'}
      </Table.Td>
      <Table.Td className="numbers" style={{ whiteSpace: 'nowrap' }}>
        <Duration job={job} read={read} />
      </Table.Td>
      <Table.Td>
        <Ago time={job.created_at} />
      </Table.Td>
    </Table.Tr>
  );
});

/** The same on a narrow screen: one card for each, without the table's columns. */
export function JobCards({ jobs, read }: { jobs: Job[] | undefined; read: number }) {
  const { t } = useTranslation();
  const message = useMessage();
  return (
    <div className="table">
      {jobs === undefined
        ? Array.from({ length: 4 }, (_, index) => (
            <div key={index} className={classes.card}>
              <Skeleton h={12} w="60%" mb={10} />
              <Skeleton h={10} w="85%" />
            </div>
          ))
        : jobs.map((job) => (
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
              {job.state === 'Failed' && !job.archived ? (
                <WhyFailed job={job} />
              ) : (
                <Quiet text={message(job)} />
              )}
              {!isFinished(job.state) && <JobProgress job={job} />}
              <Group gap={6} mt={4} fz={12} c="dimmed">
                <span>{originOf(job, t)}</span>·<Duration job={job} read={read} />·
                <Ago time={job.created_at} />
              </Group>
            </Link>
          ))}
    </div>
  );
}

function originOf(job: Job, t: ReturnType<typeof useTranslation>['t']): string {
  return [
    job.namespace,
    job.framework ?? job.runtime,
    job.kind !== undefined && job.kind !== 'TrainJob' && job.kind,
    job.archived && t('jobs.archived'),
  ]
    .filter(Boolean)
    .join(' · ');
}

/** What the state does not say by itself. */
function useMessage(): (job: Job) => string {
  const say = useSaying();
  return (job) => (job.state === 'Complete' ? '' : say(job));
}

function StateLine({ job }: { job: Job }) {
  const message = useMessage();
  return (
    <>
      <StateBadge state={shownState(job)} />
      {job.state === 'Failed' && !job.archived ? <WhyFailed job={job} /> : <Quiet text={message(job)} />}
    </>
  );
}

function Quiet({ text }: { text: string }) {
  if (text === '') return null;
  return (
    <div className={classes.quiet} title={text}>
      {text}
    </div>
  );
}

/** Why it failed, in plain words: known to the job itself, not to the list. Read once for each. */
function WhyFailed({ job }: { job: Job }) {
  const { t } = useTranslation();
  const message = useMessage();
  const { data, isPending } = useJob({ namespace: job.namespace, name: job.name });
  if (isPending) return <Quiet text="…" />;
  const failure = data?.failure;
  if (failure == null) return <Quiet text={message(job)} />;
  const what = t(`failure.${failure.kind}`);
  const on = failure.worker != null && job.num_nodes > 1;
  return <Quiet text={on ? t('failure.onWorker', { what, worker: failure.worker }) : what} />;
}

function JobProgress({ job }: { job: Job }) {
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

/** How many of its nodes run; of one that is over, only how many it had. */
function NodeCount({ job }: { job: Job }) {
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
function isStill(job: Job): boolean {
  return isFinished(job.state) || (job.archived ?? false);
}

function Duration({ job, read }: { job: Job; read: number }) {
  return isStill(job) ? (
    <span>{duration(job.duration_seconds * 1000)}</span>
  ) : (
    <Running seconds={job.duration_seconds} since={read} />
  );
}
