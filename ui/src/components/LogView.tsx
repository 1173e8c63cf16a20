import { ActionIcon, Box, Group, Switch, Text, TextInput, Tooltip } from '@mantine/core';
import { IconArrowDown, IconChevronDown, IconChevronUp, IconSearch } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type UIEvent, useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { pieces } from '@/libs/ansi';
import type { Line, Lines } from '@/libs/lines';
import { clock } from '@/libs/time';

import classes from './LogView.module.css';

interface Props {
  lines: Lines;
  /** `lines.version`, so that the view knows when more has arrived. */
  version: number;
  showWorker: boolean;
}

/**
 * A log of any length: only the lines in sight are in the page. It follows the end until the reader scrolls up, and then stays where
 * the reader is, whatever arrives.
 */
export function LogView({ lines, version, showWorker }: Props) {
  const { t } = useTranslation();
  const scroller = useRef<HTMLDivElement>(null);
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(false);
  const [times, setTimes] = useState(false);
  const [query, setQuery] = useState('');
  const [current, setCurrent] = useState(0);

  // eslint-disable-next-line react-hooks/incompatible-library -- read in the same render only, never handed on
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 20,
    overscan: 30,
  });

  // eslint-disable-next-line react-hooks/exhaustive-deps -- the version stands for the content of `lines`
  const found = useMemo(() => lines.find(query), [query, version]);
  const hit = found.length > 0 ? found[Math.min(current, found.length - 1)] : undefined;

  useEffect(() => {
    if (follow && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: 'end' });
  }, [follow, lines, rows, version, wrap]);

  const go = (step: number) => {
    if (found.length === 0) return;
    const next = (current + step + found.length) % found.length;
    setFollow(false);
    setCurrent(next);
    rows.scrollToIndex(found[next] ?? 0, { align: 'center' });
  };

  const onScroll = (event: UIEvent<HTMLDivElement>) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    const atEnd = scrollHeight - scrollTop - clientHeight < 4;
    if (atEnd !== follow && !rows.isScrolling) setFollow(atEnd);
    else if (!atEnd && follow && scrollTop < (rows.scrollOffset ?? 0)) setFollow(false);
  };

  return (
    <Box className={classes.frame}>
      <Group gap="sm" p="xs" className={classes.bar}>
        <TextInput
          size="xs"
          data-search
          aria-label={t('logs.search')}
          placeholder={t('logs.search')}
          leftSection={<IconSearch size={14} />}
          value={query}
          onChange={(event) => {
            setQuery(event.currentTarget.value);
            setCurrent(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') go(event.shiftKey ? -1 : 1);
          }}
          rightSection={query === '' ? null : <Text size="xs">{found.length}</Text>}
          rightSectionWidth={48}
        />
        <ActionIcon
          variant="subtle"
          aria-label={t('logs.previous')}
          onClick={() => go(-1)}
          disabled={found.length === 0}
        >
          <IconChevronUp size={16} />
        </ActionIcon>
        <ActionIcon
          variant="subtle"
          aria-label={t('logs.next')}
          onClick={() => go(1)}
          disabled={found.length === 0}
        >
          <IconChevronDown size={16} />
        </ActionIcon>
        <Switch
          size="xs"
          label={t('logs.wrap')}
          checked={wrap}
          onChange={(event) => setWrap(event.currentTarget.checked)}
        />
        <Switch
          size="xs"
          label={t('logs.times')}
          checked={times}
          onChange={(event) => setTimes(event.currentTarget.checked)}
        />
        <Text size="xs" c="dimmed" ml="auto">
          {t('logs.count', { count: lines.length + lines.forgotten })}
        </Text>
        <Tooltip label={t('logs.follow')}>
          <ActionIcon
            variant={follow ? 'filled' : 'light'}
            aria-label={t('logs.follow')}
            aria-pressed={follow}
            onClick={() => setFollow(!follow)}
          >
            <IconArrowDown size={16} />
          </ActionIcon>
        </Tooltip>
      </Group>
      <div
        ref={scroller}
        className={classes.scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-label={t('logs.title')}
        aria-live="off"
      >
        <div style={{ height: rows.getTotalSize(), position: 'relative' }}>
          {rows.getVirtualItems().map((row) => {
            const line = lines.at(row.index);
            return line === undefined ? null : (
              <div
                key={row.key}
                ref={rows.measureElement}
                data-index={row.index}
                data-hit={row.index === hit || undefined}
                className={classes.line}
                style={{ transform: `translateY(${row.start}px)`, whiteSpace: wrap ? 'pre-wrap' : 'pre' }}
              >
                <LogLine line={line} showWorker={showWorker} showTime={times} />
              </div>
            );
          })}
        </div>
      </div>
    </Box>
  );
}

function LogLine({ line, showWorker, showTime }: { line: Line; showWorker: boolean; showTime: boolean }) {
  return (
    <>
      {showTime && line.time !== undefined && <span className={classes.time}>{clock(line.time)} </span>}
      {showWorker && (
        <span
          className={classes.worker}
          style={{ color: `var(--mantine-color-${workerColor(line.worker)}-text)` }}
        >
          {line.worker}{' '}
        </span>
      )}
      {pieces(line.text).map((piece, index) => (
        <span
          key={index}
          style={{
            color: piece.color === undefined ? undefined : `var(--mantine-color-${piece.color}-text)`,
            fontWeight: piece.bold ? 700 : undefined,
            opacity: piece.dim ? 0.7 : undefined,
          }}
        >
          {piece.text}
        </span>
      ))}
    </>
  );
}

const WORKER_COLORS = ['blue', 'teal', 'grape', 'orange', 'cyan', 'pink', 'lime', 'violet'];

function workerColor(worker: number): string {
  return WORKER_COLORS[worker % WORKER_COLORS.length] ?? 'blue';
}
