import { Group, Loader, Text, TextInput, UnstyledButton } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconChevronDown, IconChevronUp, IconLetterCase, IconRegex, IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';

import classes from '@/components/LogView.module.css';
import { IconButton } from '@/components/IconButton';
import { workerColor } from '@/components/LogLine';
import { marked, pieces } from '@/libs/ansi';
import { clock } from '@/libs/time';
import type { Found, Line } from '@/libs/window';
import type { Schemas } from '@/services/client';
import type { LogQuery } from '@/services/logs';

interface Props {
  query: LogQuery;
  onQuery: (query: LogQuery) => void;
  result: Schemas['SearchResult'] | undefined;
  error: Error | null;
  busy: boolean;
  target: Line | undefined;
  onShow: (line: Found) => void;
}

const STEPS = [
  { key: 'previous', by: -1, icon: IconChevronUp },
  { key: 'next', by: 1, icon: IconChevronDown },
] as const;

const SWITCHES = [
  { key: 'matchCase', icon: IconLetterCase },
  { key: 'regex', icon: IconRegex },
] as const;

/** Looks through the whole log on the server; Enter and Shift-Enter go from match to match. */
export function LogSearch({ query, onQuery, result, error, busy, target, onShow }: Props) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState(query.text);
  const look = useDebouncedCallback((text: string) => onQuery({ ...query, text }), 300);
  const hits = query.text === '' ? [] : (result?.hits ?? []);
  const current = hits.findIndex((hit) => isAt(hit, target));
  // Enter before the answer is there goes to the first match when it comes.
  const eager = useRef(false);
  const first = hits[0];
  useEffect(() => {
    if (!eager.current || busy) return;
    eager.current = false;
    if (first !== undefined) onShow(lineOf(first));
  }, [first, busy, onShow]);

  const step = (by: number) => {
    const next =
      hits[current < 0 ? (by > 0 ? 0 : hits.length - 1) : (current + by + hits.length) % hits.length];
    if (next !== undefined) onShow(lineOf(next));
  };

  return (
    <Group gap={4} wrap="nowrap" maw={560} flex="1 1 180px">
      <TextInput
        size="xs"
        flex={1}
        data-search
        aria-label={t('logs.search')}
        placeholder={t('logs.search')}
        leftSection={busy && query.text !== '' ? <Loader size={12} /> : <IconSearch size={14} />}
        value={typed}
        error={error !== null && query.text !== ''}
        title={error?.message ?? ''}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          look(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return;
          event.preventDefault();
          if (typed !== query.text || hits.length === 0) {
            eager.current = typed !== '';
            onQuery({ ...query, text: typed });
          } else step(event.shiftKey ? -1 : 1);
        }}
        rightSectionWidth={64}
        rightSection={
          <Group gap={2} wrap="nowrap">
            {SWITCHES.map(({ key, icon: Icon }) => (
              <IconButton
                key={key}
                label={t(`logs.${key}`)}
                size="sm"
                variant={query[key] ? 'filled' : 'subtle'}
                aria-pressed={query[key]}
                onClick={() => onQuery({ ...query, text: typed, [key]: !query[key] })}
              >
                <Icon size={14} />
              </IconButton>
            ))}
          </Group>
        }
      />
      {query.text !== '' && (
        <>
          {STEPS.map(({ key, by, icon: Icon }) => (
            <IconButton
              key={key}
              label={t(`logs.${key}`)}
              onClick={() => step(by)}
              disabled={hits.length === 0}
            >
              <Icon size={16} />
            </IconButton>
          ))}
          <Text
            size="xs"
            miw={64}
            role="status"
            c={error === null ? undefined : 'red'}
            style={{ whiteSpace: 'nowrap' }}
          >
            {result === undefined
              ? error !== null
                ? t('logs.badPattern')
                : ''
              : `${current < 0 ? '' : `${current + 1} / `}${hits.length}${result.truncated ? '+' : ''}`}
          </Text>
        </>
      )}
    </Group>
  );
}

/** Every match with its worker and time; pressing one goes there. */
export function LogHits(props: {
  result: Schemas['SearchResult'];
  marker: RegExp | undefined;
  target: Line | undefined;
  onShow: (line: Found) => void;
}) {
  const { t } = useTranslation();
  const { result, marker, target, onShow } = props;
  return (
    <div role="region" aria-label={t('logs.hits')}>
      <Text size="xs" c="dimmed" mb={4}>
        {t(result.truncated ? 'logs.foundFirst' : 'logs.found', {
          count: result.hits.length,
          searched: result.searched.toLocaleString(),
        })}
      </Text>
      {result.hits.length > 0 && (
        <div className={classes.hits}>
          {result.hits.slice(0, 200).map((hit) => (
            <UnstyledButton
              key={`${hit.worker} ${hit.line}`}
              fz="inherit"
              className={classes.found}
              aria-current={isAt(hit, target)}
              onClick={() => onShow(lineOf(hit))}
            >
              <span className={classes.time}>{hit.time == null ? '' : `${clock(hit.time)} `}</span>
              <span
                className={classes.worker}
                style={{ color: `var(--mantine-color-${workerColor(hit.worker)}-text)` }}
              >
                {hit.worker}{' '}
              </span>
              {marked(pieces(hit.text), marker).map((piece, index) =>
                piece.marked ? (
                  <mark key={index} className={classes.mark}>
                    {piece.text}
                  </mark>
                ) : (
                  piece.text
                ),
              )}
            </UnstyledButton>
          ))}
        </div>
      )}
    </div>
  );
}

function lineOf({ worker, time, text, place }: Schemas['SearchHit']): Found {
  return { worker, time, text, place };
}

function isAt(hit: Schemas['SearchHit'], target: Line | undefined): boolean {
  return (
    target !== undefined &&
    hit.worker === target.worker &&
    hit.time === target.time &&
    hit.text === target.text
  );
}
