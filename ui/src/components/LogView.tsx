import { Box, Button, Group, Text } from '@mantine/core';
import { IconArrowBarToDown, IconArrowBarToUp } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import type { Line } from '@/libs/window';
import type { Log } from '@/services/logs';

import { IconButton } from './IconButton';
import { LogLine } from './LogLine';
import classes from './LogView.module.css';
import { useLogScroll } from './useLogScroll';
import { Whereabouts } from './Whereabouts';

interface Props {
  log: Log;
  follow: boolean;
  onFollow: (on: boolean) => void;
  wrap: boolean;
  times: boolean;
  showWorker: boolean;
  /** What the search looks for, marked wherever it is in sight. */
  marker: RegExp | undefined;
  /** The line to show, in the middle. */
  target: Line | undefined;
  /** The tools above the lines. */
  children: ReactNode;
}

/**
 * A log of any length: only the lines in sight are in the page, and only some pages around them in memory.
 */
export function LogView(props: Props) {
  const { log, follow, onFollow, wrap, times, showWorker, marker, target, children } = props;
  const held = log.window;
  const { t } = useTranslation();
  const { scroller, rows, items, first, last, onScroll, toStart, toEnd, toPart } = useLogScroll({
    log,
    follow,
    onFollow,
    wrap,
    target,
  });

  return (
    <Box className={classes.frame}>
      <Group gap="xs" p="xs" className={classes.bar} wrap="nowrap">
        {children}
        <Ways follow={follow} onStart={toStart} onFollow={() => (follow ? onFollow(false) : toEnd())} />
      </Group>
      <div
        ref={scroller}
        className={classes.scroller}
        onScroll={onScroll}
        onKeyDown={(event) => {
          if (event.key === 'Home') toStart();
          else if (event.key === 'End') toEnd();
          else return;
          event.preventDefault();
        }}
        tabIndex={0}
        role="log"
        aria-label={t('logs.title')}
        aria-live="off"
      >
        {held.length === 0 && (log.state === 'open' || log.state === 'closed') && (
          <Text size="sm" c="dimmed" p="sm">
            {log.state === 'open' ? t('logs.nothingYet') : t('logs.nothing')}
          </Text>
        )}
        <div style={{ height: rows.getTotalSize(), position: 'relative' }}>
          {items.map((row) => {
            const line = held.at(row.index);
            return line === undefined ? null : (
              <div
                key={row.key}
                ref={wrap ? rows.measureElement : undefined}
                data-index={row.index}
                data-hit={line === target || (target !== undefined && same(line, target)) || undefined}
                className={wrap ? classes.wrapped : classes.line}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                <LogLine line={line} showWorker={showWorker} showTime={times} marker={marker} />
              </div>
            );
          })}
        </div>
      </div>
      {!follow && !held.last && (
        <Button size="compact-sm" className={classes.newer} onClick={toEnd}>
          {t('logs.newer')}
        </Button>
      )}
      <Whereabouts log={log} first={first} last={last} onPick={toPart} />
    </Box>
  );
}

function Ways(props: { follow: boolean; onStart: () => void; onFollow: () => void }) {
  const { t } = useTranslation();
  const { follow, onStart, onFollow } = props;
  return (
    <Group gap={4} ml="auto" wrap="nowrap">
      <IconButton label={t('logs.toStart')} variant="default" onClick={onStart}>
        <IconArrowBarToUp size={16} />
      </IconButton>
      <IconButton
        label={t('logs.follow')}
        variant={follow ? 'filled' : 'default'}
        aria-pressed={follow}
        onClick={onFollow}
      >
        <IconArrowBarToDown size={16} />
      </IconButton>
    </Group>
  );
}

function same(one: Line, other: Line): boolean {
  return one.worker === other.worker && one.time === other.time && one.text === other.text;
}
