import { Button, Group, Select, Switch } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { IconDownload } from '@tabler/icons-react';
import { useCallback, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { type SetURLSearchParams, useSearchParams } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { LogView } from '@/components/LogView';
import classes from '@/components/LogView.module.css';
import { numberIn } from '@/libs/address';
import { isFinished } from '@/libs/state';
import { moment } from '@/libs/time';
import type { Found } from '@/libs/window';
import type { Schemas } from '@/services/client';
import {
  downloadUrl,
  type LogQuery,
  type LogSource,
  markerOf,
  useLog,
  useLogAttempts,
  useLogSearch,
} from '@/services/logs';

import { LogHits, LogSearch } from './LogSearch';

/** The log of all workers merged by time, or of one; live, and after the end from the record. */
export function Logs({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const [search, setSearch] = useSearchParams();
  // A narrow screen has no room for long lines.
  const narrow = window.matchMedia('(max-width: 48em)').matches;
  const [wrap, setWrap] = useLocalStorage({ key: 'astrago.log-wrap', defaultValue: narrow });
  const [times, setTimes] = useLocalStorage({ key: 'astrago.log-times', defaultValue: false });
  const [follow, setFollow] = useState(true);
  const [target, setTarget] = useState<Found>();
  const { namespace, name } = job;
  const worker = numberIn(search, 'worker', 0);
  const attempt = numberIn(search, 'attempt') ?? 0;
  const source = useMemo<LogSource>(
    () => ({ namespace, name, worker, attempt }),
    [namespace, name, worker, attempt],
  );
  const log = useLog(source);

  const { query, look, set } = useAddress(setSearch, search);
  const found = useLogSearch(source, query, attempt === 0 && !isFinished(job.state));
  const marker = useMemo(() => markerOf(query), [query]);
  const workers = [...new Set(job.nodes.map((node) => node.worker))].sort((a, b) => a - b);

  const { window: held, go } = log;
  const show = useCallback(
    (line: Found) => {
      setFollow(false);
      const there = held.find(line) >= 0 ? Promise.resolve() : go({ around: line.place });
      void there.then(() => setTarget({ ...line }));
    },
    [held, go],
  );
  // A line of another attempt or worker is not shown in this one.
  const elsewhere = (values: Values) => {
    setTarget(undefined);
    setFollow(true);
    set(values);
  };

  return (
    <div className={classes.log}>
      <Group gap="sm">
        <Workers workers={workers} worker={worker} onPick={(one) => elsewhere({ worker: one })} />
        <Attempts job={job} attempt={attempt} onPick={(back) => elsewhere({ attempt: back })} />
        {[
          { label: t('logs.wrap'), checked: wrap, set: setWrap },
          { label: t('logs.times'), checked: times, set: setTimes },
        ].map(({ label, checked, set }) => (
          <Switch
            key={label}
            size="xs"
            label={label}
            checked={checked}
            onChange={(event) => set(event.currentTarget.checked)}
          />
        ))}
        <Button
          component="a"
          href={downloadUrl(source)}
          download
          variant="default"
          size="xs"
          leftSection={<IconDownload size={14} />}
          ml="auto"
        >
          {t('logs.download')}
        </Button>
      </Group>
      {log.error !== undefined && <ErrorNote error={log.error} onRetry={() => void log.go({})} />}
      <LogView
        log={log}
        follow={follow}
        onFollow={setFollow}
        wrap={wrap}
        times={times}
        showWorker={worker === undefined && workers.length > 1}
        marker={marker}
        target={target}
      >
        <LogSearch
          query={query}
          onQuery={look}
          result={found.data}
          error={found.error}
          busy={found.isFetching}
          target={target}
          onShow={show}
        />
      </LogView>
      {found.data !== undefined && query.text !== '' && (
        <LogHits result={found.data} marker={marker} target={target} onShow={show} />
      )}
    </div>
  );
}

type Values = Record<string, string | undefined>;

/** What is looked for in the log; the address keeps it, and what else is shown. */
function useAddress(setSearch: SetURLSearchParams, search: URLSearchParams) {
  const [query, setQuery] = useState<LogQuery>({
    text: search.get('q') ?? '',
    regex: search.has('regex'),
    matchCase: search.has('case'),
  });
  const set = (values: Values) => {
    // Whoever has gone on to another tab meanwhile is not called back.
    if (!window.location.pathname.endsWith('/logs')) return;
    setSearch(
      (previous) => {
        const next = new URLSearchParams(previous);
        for (const [key, value] of Object.entries(values)) {
          if (value === undefined || value === '') next.delete(key);
          else next.set(key, value);
        }
        return next;
      },
      { replace: true },
    );
  };
  const look = (next: LogQuery) => {
    setQuery(next);
    set({ q: next.text, regex: next.regex ? '1' : undefined, case: next.matchCase ? '1' : undefined });
  };
  return { query, look, set };
}

function Workers(props: {
  workers: number[];
  worker: number | undefined;
  onPick: (worker: string | undefined) => void;
}) {
  const { t } = useTranslation();
  const { workers, worker, onPick } = props;
  return (
    <Select
      w={170}
      size="xs"
      aria-label={t('logs.worker')}
      data={[
        { value: 'all', label: t('logs.all') },
        ...workers.map((one) => ({ value: String(one), label: t('job.worker', { worker: one }) })),
      ]}
      value={worker === undefined ? 'all' : String(worker)}
      onChange={(value) => onPick(value === 'all' ? undefined : (value ?? undefined))}
      allowDeselect={false}
    />
  );
}

/** The attempts of the job, when there was more than one. */
function Attempts(props: {
  job: Schemas['JobDetail'];
  attempt: number;
  onPick: (back: string | undefined) => void;
}) {
  const { t, i18n } = useTranslation();
  const attempts = useLogAttempts(props.job);
  const all = attempts.data ?? [];
  if (all.length < 2 && props.attempt === 0) return null;
  const label = (one: Schemas['LogAttempt']) =>
    t(one.back === 0 ? 'logs.attemptLast' : 'logs.attemptOf', {
      number: all.length - one.back,
      when: moment(one.started_at, i18n.language),
    });
  return (
    <Select
      w={290}
      size="xs"
      aria-label={t('logs.attempt')}
      data={all.map((one) => ({ value: String(one.back), label: label(one) }))}
      value={String(props.attempt)}
      onChange={(value) => props.onPick(value === '0' ? undefined : (value ?? undefined))}
      allowDeselect={false}
    />
  );
}
