import { useVirtualizer } from '@tanstack/react-virtual';
import { type UIEvent, useEffect, useLayoutEffect, useRef } from 'react';

import type { Line } from '@/libs/window';
import type { Log } from '@/services/logs';

const LINE = 20;
/** How many lines from its edge the next page is read. */
const NEAR = 300;

interface Options {
  log: Log;
  follow: boolean;
  onFollow: (on: boolean) => void;
  wrap: boolean;
  /** The line to show, in the middle. */
  target: Line | undefined;
}

/** Which lines are in sight. It follows the end until the reader scrolls up, and then stays where the reader is, whatever arrives. */
export function useLogScroll({ log, follow, onFollow, wrap, target }: Options) {
  const { window: held, version, more, go, follow: setFollowing } = log;
  const scroller = useRef<HTMLDivElement>(null);
  /** The line at the top of the view and how far it is scrolled, so that it stays there when lines come before it. */
  const anchor = useRef({ number: 0, offset: 0 });
  const lastTop = useRef(0);

  // eslint-disable-next-line react-hooks/incompatible-library -- read in the render that it was made in, never kept
  const rows = useVirtualizer({
    count: held.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE,
    getItemKey: (index) => held.numberOf(index),
    overscan: 20,
  });
  const items = rows.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;

  useEffect(() => {
    setFollowing(follow);
  }, [setFollowing, follow]);

  // Before painting: to the end, or back to the line that was at the top.
  useLayoutEffect(() => {
    if (held.length === 0 || scroller.current === null) return;
    if (follow && held.last) {
      scroller.current.scrollTop = scroller.current.scrollHeight;
      // Wrapped lines get their height only when they are in sight.
      if (wrap) rows.scrollToIndex(held.length - 1, { align: 'end' });
      return;
    }
    const start = rows.measurementsCache[held.indexOf(anchor.current.number)]?.start;
    if (start === undefined) return;
    const top = start + anchor.current.offset;
    if (Math.abs(scroller.current.scrollTop - top) > 1) scroller.current.scrollTop = top;
  }, [follow, held, rows, version, wrap]);

  useEffect(() => {
    if (held.length === 0) return;
    // Whoever follows the end has no need of what lies before.
    if (!follow && first < NEAR) more('before');
    else if (last > held.length - NEAR) more('after');
  }, [first, last, follow, held, more, version]);

  const show = (index: number, align: 'start' | 'center' = 'start') => {
    anchor.current = { number: held.numberOf(index), offset: align === 'center' ? -120 : 0 };
    rows.scrollToIndex(index, { align });
  };

  useEffect(() => {
    if (target === undefined) return;
    const index = held.find(target);
    if (index >= 0) show(index, 'center');
    // eslint-disable-next-line react-hooks/exhaustive-deps -- only when another line is to be shown, not when more arrives
  }, [target]);

  const onScroll = (event: UIEvent<HTMLDivElement>) => {
    const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
    const atEnd = held.last && scrollHeight - scrollTop - clientHeight < 4;
    const up = scrollTop < lastTop.current - 1;
    lastTop.current = scrollTop;
    const row = rows.getVirtualItemForOffset(scrollTop);
    if (row !== undefined)
      anchor.current = { number: held.numberOf(row.index), offset: scrollTop - row.start };
    if (atEnd && !follow) onFollow(true);
    else if (!atEnd && follow && up) onFollow(false);
  };

  const toStart = () => {
    onFollow(false);
    if (held.first) show(0);
    else void go({ thousandths: 0 }).then(() => show(0));
  };
  const toEnd = () => {
    onFollow(true);
    if (!held.last) void go({});
  };
  const toPart = (thousandths: number) => {
    onFollow(false);
    void go({ thousandths }).then(() => show(Math.floor(held.length / 2)));
  };

  return { scroller, rows, items, first, last, onScroll, toStart, toEnd, toPart };
}
