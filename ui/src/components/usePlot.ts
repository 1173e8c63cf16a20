import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';

import { type Look, optionsOf, type Series } from '@/libs/plot';

export const HEIGHT = 220;

/** Where the pointer is: the place in the data, and on the screen. */
export interface Pointed {
  index: number;
  left: number;
  right: boolean;
}

interface Options {
  series: Series[];
  data: uPlot.AlignedData;
  hidden: ReadonlySet<string>;
  /** The same object as long as nothing of it changes. */
  look: Look;
  /** The same function as long as it gives the same colours. */
  colorOf: (index: number) => string;
  onPart: ((part: { from: number; to: number } | undefined) => void) | undefined;
}

/** Keeps a drawn chart current; gives the element to draw it in, and where the pointer is. */
export function usePlot({ series, data, hidden, look, colorOf, onPart }: Options) {
  const element = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<Pointed>();
  const plot = useRef<uPlot>(undefined);
  const zoomed = useRef(false);
  const latest = useRef(data);
  const choose = useRef(onPart);
  useEffect(() => {
    choose.current = onPart;
  }, [onPart]);

  useEffect(() => {
    const parent = element.current;
    if (parent === null) return;
    const select = (one: uPlot) => {
      const { left, width } = one.select;
      if (width === 0) return;
      if (choose.current === undefined) zoomed.current = true;
      const at = (position: number) => one.posToVal(position, 'x') * (look.time ? 1000 : 1);
      choose.current?.({ from: at(left), to: at(left + width) });
    };
    const point = ({ cursor: { idx, left = -1 }, over }: uPlot) =>
      setPointed(
        idx == null || left < 0 ? undefined : { index: idx, left, right: left > over.clientWidth / 2 },
      );
    const size = () => ({ width: parent.clientWidth, height: HEIGHT });
    const hooks = { setSelect: [select], setCursor: [point] };
    const made = new uPlot({ ...optionsOf(look, colorOf), ...size(), hooks }, latest.current, parent);
    zoomed.current = false;
    made.over.addEventListener('dblclick', () => {
      zoomed.current = false;
      choose.current?.(undefined);
    });
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize(size()));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [look, colorOf]);

  // New points keep what the reader has zoomed into.
  useEffect(() => {
    latest.current = data;
    if (plot.current?.series.length === data.length) plot.current.setData(data, !zoomed.current);
  }, [data]);

  useEffect(() => {
    let edge = series.length + 1;
    series.forEach((one, index) => {
      const show = !hidden.has(one.label);
      plot.current?.setSeries(index + 1, { show });
      if (one.band === undefined) return;
      for (const at of [edge++, edge++]) plot.current?.setSeries(at, { show });
    });
  }, [hidden, series, look, colorOf]);

  return { element, pointed };
}
