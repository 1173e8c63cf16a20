import { Button, Group, Pagination, Text, Title } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useCallback, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, Navigate, useSearchParams } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { GROUPINGS } from '@/libs/groups';
import { STATES } from '@/libs/state';
import { numberIn } from '@/libs/address';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobs, useLiveJobs } from '@/services/jobs';

import { Bulk } from './Bulk';
import type { Job } from './cells';
import { Filters, PILLS, Search } from './Filters';
import classes from './Jobs.module.css';
import { JobCards } from './JobCards';
import { JobTable, type Sort } from './JobTable';
import { Views } from './Views';

const SORTS: Sort[] = ['newest', 'oldest', 'name', 'state', 'duration'];
const PAGE_SIZE = 50;

/** All jobs, live. Filters live in the address, so that a view can be shared and the back button works. */
export function JobList({ me }: { me: Schemas['WhoAmI'] }) {
  const { t, i18n } = useTranslation();
  const [search, setSearch] = useSearchParams();
  // Chosen jobs stay chosen while one looks for others to compare them with.
  const [selected, setSelected] = useState<ReadonlyMap<string, Job>>(new Map());
  const [clears, setClears] = useState(0);
  const narrow = useMediaQuery('(max-width: 48em)', false, { getInitialValueInEffect: false });
  const text = search.get('q') ?? '';
  useLiveJobs();
  const page = numberIn(search, 'page') ?? 1;
  const state = STATES.find((one) => one === search.get('state'));
  const sort = SORTS.find((one) => one === search.get('sort')) ?? 'newest';
  const group = GROUPINGS.find((one) => one === search.get('group'));
  const jobs = useJobs({
    ...(text !== '' && { q: text }),
    ...(state !== undefined && { state }),
    ...Object.fromEntries(
      ['framework', ...PILLS].flatMap((key) => (search.has(key) ? [[key, search.get(key)]] : [])),
    ),
    ...(group !== undefined && { group }),
    ...(search.has('mine') && { user: me.user }),
    ...(search.has('history') && { archived: true }),
    sort,
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

  const items = jobs.data?.items;
  const shown = new Map(items?.map((job) => [job.uid, job]));
  const chosen = [...selected.values()].map((job) => shown.get(job.uid) ?? job);
  // The last page of a list that has become shorter, or of an address that counts further than there are jobs.
  const beyond = items?.length === 0 && page > 1 ? Math.ceil((jobs.data?.total ?? 0) / PAGE_SIZE) : 0;
  const filtered = ['q', 'state', 'framework', 'mine', ...PILLS].some((key) => search.has(key));
  const select = useCallback(
    (jobs: Job[], on: boolean) =>
      setSelected((before) => {
        const next = new Map(before);
        for (const job of jobs) {
          if (on) next.set(job.uid, job);
          else next.delete(job.uid);
        }
        return next;
      }),
    [],
  );

  return (
    <>
      <Group justify="space-between" mb="md" wrap="nowrap">
        <Title order={2}>{t('nav.jobs')}</Title>
        <Group gap="xs" wrap="nowrap">
          <Views search={search} user={me.user} />
          <NewJob />
        </Group>
      </Group>
      <div className={classes.filters}>
        <Search key={clears} text={text} narrow={narrow} onLook={(value) => set('q', value)} />
        <Filters search={search} set={set} />
        {jobs.data !== undefined && jobs.data.total > 0 && (
          <Text size="sm" c="dimmed" role="status" ml="auto" className="numbers">
            {t('jobs.total', {
              count: jobs.data.total,
              total: jobs.data.total.toLocaleString(i18n.language),
            })}
          </Text>
        )}
      </div>
      {jobs.error !== null && <ErrorNote error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {items?.length === 0 ? (
        <Nothing
          filtered={filtered}
          onClear={() => {
            setClears(clears + 1);
            setSearch({});
          }}
        />
      ) : narrow ? (
        <JobCards jobs={items} read={jobs.dataUpdatedAt} />
      ) : (
        (items !== undefined || jobs.error === null) && (
          <JobTable
            jobs={items}
            read={jobs.dataUpdatedAt}
            choice={{ selected, onSelect: select }}
            order={{ sort, onSort: (next) => set('sort', next) }}
            {...(group !== undefined && { grouping: { by: group, groups: jobs.data?.groups ?? [] } })}
          />
        )
      )}
      {beyond > 0 && <Navigate replace to={`?${withPage(search, beyond)}`} />}
      <Pages total={jobs.data?.total ?? 0} page={page} onPage={(next) => set('page', String(next))} />
      {chosen.length > 0 && (
        <Bulk
          chosen={chosen}
          elsewhere={chosen.filter((job) => !shown.has(job.uid)).length}
          onDone={() => setSelected(new Map())}
        />
      )}
    </>
  );
}

function withPage(search: URLSearchParams, page: number): string {
  const next = new URLSearchParams(search);
  next.set('page', String(page));
  return next.toString();
}

function Pages({ total, page, onPage }: { total: number; page: number; onPage: (page: number) => void }) {
  const { t } = useTranslation();
  if (total <= PAGE_SIZE) return null;
  return (
    <Group mt="md" justify="flex-end">
      <Pagination
        size="sm"
        total={Math.ceil(total / PAGE_SIZE)}
        value={page}
        onChange={onPage}
        getControlProps={(control) => ({ 'aria-label': t(`paging.${control}`) })}
        getItemProps={(number) => ({ 'aria-label': t('paging.page', { number }) })}
      />
    </Group>
  );
}

function Nothing({ filtered, onClear }: { filtered: boolean; onClear: () => void }) {
  const { t } = useTranslation();
  if (filtered)
    return (
      <Empty
        title={t('jobs.noneFound')}
        action={
          <Button variant="light" onClick={onClear}>
            {t('jobs.clear')}
          </Button>
        }
      />
    );
  return (
    <Empty title={t('jobs.none')} action={<NewJob />}>
      {t('jobs.noneHint')}
    </Empty>
  );
}

function NewJob() {
  const { t } = useTranslation();
  return (
    <Button component={Link} to={ROUTES.submit} size="sm" leftSection={<IconPlus size={16} />}>
      {t('nav.submit')}
    </Button>
  );
}
