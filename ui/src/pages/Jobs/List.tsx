import { Button, Group, Pagination, Select, Switch, Text, TextInput, Title } from '@mantine/core';
import { useDebouncedCallback, useMediaQuery } from '@mantine/hooks';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { useCallback, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useSearchParams } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { Keys } from '@/components/Keys';
import { STATES } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobs, useLiveJobs } from '@/services/jobs';

import { Bulk } from './Bulk';
import classes from './Jobs.module.css';
import { JobCards, JobTable, type Sort } from './JobTable';

const FRAMEWORKS = ['pytorch', 'tensorflow', 'horovod', 'jax', 'xgboost', 'deepspeed', 'mlx'] as const;
const SORTS: Sort[] = ['newest', 'oldest', 'name', 'state', 'duration'];
const PAGE_SIZE = 50;

/** All jobs, live. Filters live in the address, so that a view can be shared and the back button works. */
export function JobList({ me }: { me: Schemas['WhoAmI'] }) {
  const { t, i18n } = useTranslation();
  const [search, setSearch] = useSearchParams();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [clears, setClears] = useState(0);
  const narrow = useMediaQuery('(max-width: 48em)', false, { getInitialValueInEffect: false });
  const text = search.get('q') ?? '';
  useLiveJobs();
  const page = Number(search.get('page') ?? '1');
  const state = STATES.find((one) => one === search.get('state'));
  const sort = SORTS.find((one) => one === search.get('sort')) ?? 'newest';
  const jobs = useJobs({
    ...(text !== '' && { q: text }),
    ...(state !== undefined && { state }),
    ...(search.has('namespace') && { namespace: search.get('namespace') ?? '' }),
    ...(search.has('framework') && { framework: search.get('framework') ?? '' }),
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
  const chosen = (items ?? []).filter((job) => selected.has(job.uid));
  const filtered = ['q', 'state', 'namespace', 'framework', 'mine'].some((key) => search.has(key));
  const select = useCallback(
    (uids: string[], on: boolean) =>
      setSelected((before) => {
        const next = new Set(before);
        for (const uid of uids) {
          if (on) next.add(uid);
          else next.delete(uid);
        }
        return next;
      }),
    [],
  );

  return (
    <>
      <Group justify="space-between" mb="md" wrap="nowrap">
        <Title order={2}>{t('nav.jobs')}</Title>
        <Button component={Link} to={ROUTES.submit} size="sm" leftSection={<IconPlus size={16} />}>
          {t('nav.submit')}
        </Button>
      </Group>
      <div className={classes.filters}>
        <Search key={clears} text={text} narrow={narrow} onLook={(value) => set('q', value)} />
        <Select
          w={{ base: 'calc(50% - 4px)', xs: 150 }}
          size="sm"
          placeholder={t('jobs.anyState')}
          aria-label={t('jobs.state')}
          clearable
          data={STATES.map((one) => ({ value: one, label: t(`state.${one}`) }))}
          value={search.get('state')}
          onChange={(value) => set('state', value)}
        />
        <Select
          w={{ base: 'calc(50% - 4px)', xs: 160 }}
          size="sm"
          placeholder={t('jobs.anyFramework')}
          aria-label={t('submit.framework')}
          clearable
          data={FRAMEWORKS.map((one) => ({ value: one, label: t(`framework.${one}.name`) }))}
          value={search.get('framework')}
          onChange={(value) => set('framework', value)}
        />
        <Switch
          size="xs"
          ml={{ xs: 4 }}
          label={t('jobs.mine')}
          checked={search.has('mine')}
          onChange={(event) => set('mine', event.currentTarget.checked ? '1' : null)}
        />
        <Switch
          size="xs"
          ml={4}
          label={t('jobs.history')}
          checked={search.has('history')}
          onChange={(event) => set('history', event.currentTarget.checked ? '1' : null)}
        />
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
        <Empty
          title={filtered ? t('jobs.noneFound') : t('jobs.none')}
          action={
            filtered ? (
              <Button
                variant="light"
                onClick={() => {
                  setClears(clears + 1);
                  setSearch({});
                }}
              >
                {t('jobs.clear')}
              </Button>
            ) : (
              <Button component={Link} to={ROUTES.submit} leftSection={<IconPlus size={16} />}>
                {t('nav.submit')}
              </Button>
            )
          }
        >
          {filtered ? undefined : t('jobs.noneHint')}
        </Empty>
      ) : narrow ? (
        <JobCards jobs={items} read={jobs.dataUpdatedAt} />
      ) : (
        (items !== undefined || jobs.error === null) && (
          <JobTable
            jobs={items}
            read={jobs.dataUpdatedAt}
            selected={selected}
            onSelect={select}
            sort={sort}
            onSort={(next) => set('sort', next)}
          />
        )
      )}
      {jobs.data !== undefined && jobs.data.total > PAGE_SIZE && (
        <Group mt="md" justify="flex-end">
          <Pagination
            size="sm"
            total={Math.ceil(jobs.data.total / PAGE_SIZE)}
            value={page}
            onChange={(next) => set('page', String(next))}
            getControlProps={(control) => ({ 'aria-label': t(`paging.${control}`) })}
            getItemProps={(number) => ({ 'aria-label': t('paging.page', { number }) })}
          />
        </Group>
      )}
      {chosen.length > 0 && <Bulk chosen={chosen} onDone={() => setSelected(new Set())} />}
    </>
  );
}

/**
 * The text is kept here and goes into the address when typing pauses: the address is too slow to type into, and the list
 * to be drawn at every key.
 */
function Search(props: { text: string; narrow: boolean; onLook: (text: string) => void }) {
  const { text, narrow, onLook } = props;
  const { t } = useTranslation();
  const [typed, setTyped] = useState(text);
  const look = useDebouncedCallback((value: string) => {
    // Whoever has gone on to a job meanwhile is not called back.
    if (window.location.pathname === ROUTES.jobs) onLook(value);
  }, 200);
  return (
    <TextInput
      data-search
      size="sm"
      w={{ base: '100%', xs: 280 }}
      placeholder={t('jobs.search')}
      aria-label={t('jobs.search')}
      leftSection={<IconSearch size={15} />}
      rightSection={narrow ? undefined : <Keys of="/" />}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        look(event.currentTarget.value);
      }}
    />
  );
}
