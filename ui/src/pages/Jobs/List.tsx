import {
  Anchor,
  Button,
  Checkbox,
  Group,
  Loader,
  Pagination,
  Progress,
  Select,
  Switch,
  Table,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { modals } from '@mantine/modals';
import { notifications } from '@mantine/notifications';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useSearchParams } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { StateBadge } from '@/components/StateBadge';
import { amounts } from '@/libs/amounts';
import { useSaying } from '@/libs/saying';
import { isFinished, STATES } from '@/libs/state';
import { ago, duration, moment } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobAction, useJobs, useLiveJobs } from '@/services/jobs';

const FRAMEWORKS = ['pytorch', 'tensorflow', 'horovod', 'jax', 'xgboost', 'deepspeed', 'mlx'] as const;
const PAGE_SIZE = 50;
/** So many requests at a time when many jobs are stopped or deleted. */
const AT_ONCE = 8;

/** All jobs, live. Filters live in the address, so that a view can be shared and the back button works. */
export function JobList({ me }: { me: Schemas['WhoAmI'] }) {
  const { t, i18n } = useTranslation();
  const [search, setSearch] = useSearchParams();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const text = search.get('q') ?? '';
  useLiveJobs();
  const page = Number(search.get('page') ?? '1');
  const state = STATES.find((one) => one === search.get('state'));
  const jobs = useJobs({
    ...(text !== '' && { q: text }),
    ...(state !== undefined && { state }),
    ...(search.has('namespace') && { namespace: search.get('namespace') ?? '' }),
    ...(search.has('framework') && { framework: search.get('framework') ?? '' }),
    ...(search.has('mine') && { user: me.user }),
    ...(search.has('history') && { archived: true }),
    sort: search.get('sort') ?? 'newest',
    page: page - 1,
    limit: PAGE_SIZE,
  });

  const set = (key: string, value: string | null) =>
    setSearch(
      (previous) => {
        const next = new URLSearchParams(previous);
        if (value === null || value === '') next.delete(key);
        else next.set(key, value);
        if (key !== 'page') next.delete('page');
        return next;
      },
      { replace: key === 'q' },
    );

  // The text is kept here and goes into the address when typing pauses: the address is too slow to type into.
  const [typed, setTyped] = useState(text);
  const look = useDebouncedCallback((value: string) => {
    // Whoever has gone on to a job meanwhile is not called back.
    if (window.location.pathname === ROUTES.jobs) set('q', value);
  }, 200);

  const items = jobs.data?.items ?? [];
  const chosen = items.filter((job) => selected.has(job.uid));
  const filtered = ['q', 'state', 'namespace', 'framework', 'mine'].some((key) => search.has(key));

  return (
    <>
      <Group justify="space-between" mb="md">
        <Title order={2}>{t('nav.jobs')}</Title>
        <Button component={Link} to={ROUTES.submit} leftSection={<IconPlus size={16} />}>
          {t('nav.submit')}
        </Button>
      </Group>
      <Group mb="sm" gap="sm">
        <TextInput
          data-search
          w={{ base: '100%', xs: 260 }}
          placeholder={t('jobs.search')}
          aria-label={t('jobs.search')}
          leftSection={<IconSearch size={16} />}
          value={typed}
          onChange={(event) => {
            setTyped(event.currentTarget.value);
            look(event.currentTarget.value);
          }}
        />
        <Select
          w={160}
          placeholder={t('jobs.anyState')}
          aria-label={t('jobs.state')}
          clearable
          data={STATES.map((state) => ({ value: state, label: t(`state.${state}`) }))}
          value={search.get('state')}
          onChange={(value) => set('state', value)}
        />
        <Select
          w={150}
          placeholder={t('jobs.anyFramework')}
          aria-label={t('submit.framework')}
          clearable
          data={FRAMEWORKS.map((one) => ({ value: one, label: t(`framework.${one}.name`) }))}
          value={search.get('framework')}
          onChange={(value) => set('framework', value)}
        />
        <Switch
          label={t('jobs.mine')}
          checked={search.has('mine')}
          onChange={(event) => set('mine', event.currentTarget.checked ? '1' : null)}
        />
        <Switch
          label={t('jobs.history')}
          checked={search.has('history')}
          onChange={(event) => set('history', event.currentTarget.checked ? '1' : null)}
        />
        {jobs.isFetching && <Loader size="xs" aria-label={t('app.loading')} />}
        {chosen.length > 0 && <Bulk chosen={chosen} onDone={() => setSelected(new Set())} />}
      </Group>
      {jobs.error !== null && <ErrorNote error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.data !== undefined && items.length === 0 && (
        <Empty
          title={filtered ? t('jobs.noneFound') : t('jobs.none')}
          action={
            filtered ? (
              <Button
                variant="light"
                onClick={() => {
                  setTyped('');
                  setSearch({});
                }}
              >
                {t('jobs.clear')}
              </Button>
            ) : (
              <Button component={Link} to={ROUTES.submit}>
                {t('nav.submit')}
              </Button>
            )
          }
        >
          {filtered ? undefined : t('jobs.noneHint')}
        </Empty>
      )}
      {items.length > 0 && (
        <Table.ScrollContainer minWidth={980}>
          <Table highlightOnHover verticalSpacing="xs" stickyHeader>
            <Table.Thead>
              <Table.Tr>
                <Table.Th w={36}>
                  <Checkbox
                    aria-label={t('jobs.selectAll')}
                    checked={chosen.length === items.length}
                    indeterminate={chosen.length > 0 && chosen.length < items.length}
                    onChange={(event) =>
                      setSelected(new Set(event.currentTarget.checked ? items.map((job) => job.uid) : []))
                    }
                  />
                </Table.Th>
                <SortHeader by="name" label={t('jobs.name')} search={search} set={set} />
                <SortHeader by="state" label={t('jobs.state')} search={search} set={set} />
                <Table.Th>{t('jobs.progress')}</Table.Th>
                <Table.Th>{t('jobs.nodes')}</Table.Th>
                <Table.Th>{t('jobs.resources')}</Table.Th>
                <Table.Th>{t('jobs.user')}</Table.Th>
                <SortHeader by="duration" label={t('jobs.duration')} search={search} set={set} />
                <SortHeader by="newest" label={t('jobs.created')} search={search} set={set} />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {items.map((job) => (
                <JobRow
                  key={job.uid}
                  job={job}
                  selected={selected.has(job.uid)}
                  onSelect={(on) => {
                    const next = new Set(selected);
                    if (on) next.add(job.uid);
                    else next.delete(job.uid);
                    setSelected(next);
                  }}
                />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {jobs.data !== undefined && jobs.data.total > 0 && (
        <Group mt="md" justify="space-between">
          <Text size="sm" c="dimmed" role="status">
            {t('jobs.total', {
              count: jobs.data.total,
              total: jobs.data.total.toLocaleString(i18n.language),
            })}
          </Text>
          {jobs.data.total > PAGE_SIZE && (
            <Pagination
              total={Math.ceil(jobs.data.total / PAGE_SIZE)}
              value={page}
              onChange={(next) => set('page', String(next))}
              getControlProps={(control) => ({ 'aria-label': t(`paging.${control}`) })}
              getItemProps={(number) => ({ 'aria-label': t('paging.page', { number }) })}
            />
          )}
        </Group>
      )}
    </>
  );
}

/** A heading that sorts by its column; the one of the time turns around when it is pressed again. */
function SortHeader(props: {
  by: 'newest' | 'name' | 'state' | 'duration';
  label: string;
  search: URLSearchParams;
  set: (key: string, value: string) => void;
}) {
  const current = props.search.get('sort') ?? 'newest';
  const direction =
    current === props.by
      ? props.by === 'newest'
        ? 'descending'
        : 'ascending'
      : current === 'oldest' && props.by === 'newest'
        ? 'ascending'
        : 'none';
  return (
    <Table.Th aria-sort={direction}>
      <Anchor
        component="button"
        type="button"
        size="sm"
        c="inherit"
        fw={600}
        style={{ whiteSpace: 'nowrap' }}
        onClick={() => props.set('sort', props.by === 'newest' && current === 'newest' ? 'oldest' : props.by)}
      >
        {props.label}
        {direction === 'ascending' ? ' ↑' : direction === 'descending' ? ' ↓' : ''}
      </Anchor>
    </Table.Th>
  );
}

function JobRow({
  job,
  selected,
  onSelect,
}: {
  job: Schemas['JobSummary'];
  selected: boolean;
  onSelect: (on: boolean) => void;
}) {
  const { t, i18n } = useTranslation();
  const say = useSaying();
  return (
    <Table.Tr data-job={job.name}>
      <Table.Td>
        <Checkbox
          disabled={job.archived ?? false}
          aria-label={t('jobs.select', { name: job.name })}
          checked={selected}
          onChange={(event) => onSelect(event.currentTarget.checked)}
        />
      </Table.Td>
      <Table.Td>
        <Anchor component={Link} to={ROUTES.job.path(job.namespace, job.name)} fw={500}>
          {job.name}
        </Anchor>
        <Text size="xs" c="dimmed">
          {job.namespace} · {job.framework ?? job.runtime}
          {job.kind !== undefined && job.kind !== 'TrainJob' && ` · ${job.kind}`}
          {job.archived && ` · ${t('jobs.archived')}`}
        </Text>
      </Table.Td>
      <Table.Td>
        <StateBadge state={job.state} />
        {job.message !== '' && job.state !== 'Complete' && (
          <Text size="xs" c="dimmed" lineClamp={2} maw={260} title={say(job)}>
            {say(job)}
          </Text>
        )}
      </Table.Td>
      <Table.Td w={140}>
        {job.progress != null && (
          <>
            <Progress value={job.progress.percent} size="sm" aria-label={t('jobs.progress')} />
            <Text size="xs" c="dimmed">
              {Math.round(job.progress.percent)} %
              {job.progress.remaining_seconds != null &&
                ` · ${t('jobs.left', { time: duration(job.progress.remaining_seconds * 1000) })}`}
            </Text>
          </>
        )}
      </Table.Td>
      <Table.Td>
        {job.nodes_running}/{job.num_nodes}
        {job.restarts > 0 && (
          <Text size="xs" c="dimmed">
            {t('jobs.restarts', { count: job.restarts })}
          </Text>
        )}
      </Table.Td>
      <Table.Td style={{ whiteSpace: 'nowrap' }}>{amounts(job.per_node)}</Table.Td>
      <Table.Td>{job.user ?? '–'}</Table.Td>
      <Table.Td style={{ whiteSpace: 'nowrap' }}>{duration(job.duration_seconds * 1000)}</Table.Td>
      <Table.Td style={{ whiteSpace: 'nowrap' }} title={moment(job.created_at, i18n.language)}>
        {ago(job.created_at, i18n.language)}
      </Table.Td>
    </Table.Tr>
  );
}

/** Stop or delete several at once, after a question, and say how it went. */
function Bulk({ chosen, onDone }: { chosen: Schemas['JobSummary'][]; onDone: () => void }) {
  const { t } = useTranslation();
  const action = useJobAction();
  const [left, setLeft] = useState(0);
  const all = async (what: 'suspend' | 'delete') => {
    const waiting = [...chosen];
    const failed: string[] = [];
    setLeft(waiting.length);
    const work = async () => {
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        await action
          .mutateAsync({ key: job, action: what })
          .catch((error: Error) => failed.push(error.message));
        setLeft((before) => before - 1);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const count = chosen.length - failed.length;
    notifications.show({ message: t(`jobs.bulkDone.${what}`, { count }) });
    if (failed.length > 0)
      notifications.show({
        color: 'red',
        title: t('jobs.bulkFailed', { count: failed.length }),
        message: failed[0],
      });
    onDone();
  };
  const confirm = (what: 'suspend' | 'delete') =>
    modals.openConfirmModal({
      title: t(`jobs.${what}Title`, { count: chosen.length }),
      children: <Text size="sm">{t(`jobs.${what}Text`)}</Text>,
      labels: { confirm: t(`action.${what}`), cancel: t('action.cancel') },
      confirmProps: { color: what === 'delete' ? 'red.9' : undefined },
      closeButtonProps: { 'aria-label': t('action.cancel') },
      onConfirm: () => void all(what),
    });
  const running = chosen.filter((job) => !isFinished(job.state) && job.state !== 'Suspended');
  return (
    <Group gap="xs" role="group" aria-label={t('jobs.selected', { count: chosen.length })}>
      <Text size="sm">
        {left > 0 ? t('jobs.bulkLeft', { count: left }) : t('jobs.selected', { count: chosen.length })}
      </Text>
      <Button
        size="xs"
        variant="light"
        onClick={() => confirm('suspend')}
        loading={left > 0}
        disabled={running.length === 0}
      >
        {t('action.suspend')}
      </Button>
      <Button size="xs" variant="light" color="red" onClick={() => confirm('delete')} loading={left > 0}>
        {t('action.delete')}
      </Button>
    </Group>
  );
}
