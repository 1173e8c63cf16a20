import 'uplot/dist/uPlot.min.css';

import {
  Group,
  type MantineTheme,
  Text,
  UnstyledButton,
  useComputedColorScheme,
  useMantineTheme,
} from '@mantine/core';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import uPlot from 'uplot';

import { shortened, smoothed } from '@/libs/curves';

import classes from './Curve.module.css';

export interface Series {
  label: string;
  points: { x: number; y: number }[];
  /** The lowest and highest of what a point is the mean of. */
  band?: { low: number; high: number }[];
}

interface Props {
  title: string;
  series: Series[];
  /** From 0 (raw) to below 1 (very smooth). */
  smoothing: number;
  xLabel: string;
  /** True where x is milliseconds since the epoch. */
  time?: boolean;
  /** Charts of the same group show the pointer at the same place. */
  group: string;
  /** Told of the part of x that was dragged over, if there are more points of it to be had; of nothing to show all again. */
  onPart?: (part: { from: number; to: number } | undefined) => void;
}

const COLORS = ['blue', 'orange', 'teal', 'grape', 'cyan', 'pink', 'lime', 'violet'];
const HEIGHT = 220;
/** More than these hide the chart; the pointer still tells the values of all. */
const LEGEND = 12;

/** Lines over a common x, with the numbers at the pointer, and zoom by dragging (double click shows all again). */
export function Curve({ title, series, smoothing, xLabel, time = false, group, onPart }: Props) {
  const { i18n } = useTranslation();
  const element = useRef<HTMLDivElement>(null);
  const theme = useMantineTheme();
  const scheme = useComputedColorScheme('light');
  const data = useMemo(() => aligned(series, smoothing, time), [series, smoothing, time]);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [pointed, setPointed] = useState<{ index: number; left: number; right: boolean }>();

  const plot = useRef<uPlot>(undefined);
  const zoomed = useRef(false);
  const latest = useRef(data);
  const choose = useRef(onPart);
  useEffect(() => {
    choose.current = onPart;
  }, [onPart]);
  const labels = series.map((one) => one.label).join('\n');
  // Which of them have a band; as text, so that equal ones do not draw the chart anew.
  const banded = series.flatMap((one, index) => (one.band === undefined ? [] : [index])).join(' ');
  const sparse = series.every((one) => one.points.length < 30);
  const colorOf = (index: number) => strokeOf(theme, scheme, index);

  useEffect(() => {
    const parent = element.current;
    if (parent === null) return;
    const look = {
      labels,
      banded,
      sparse,
      time,
      xLabel,
      group,
      dark: scheme === 'dark',
      language: i18n.language,
    };
    const made = new uPlot(
      {
        ...optionsOf(look, (index) => strokeOf(theme, scheme, index)),
        width: parent.clientWidth,
        height: HEIGHT,
        hooks: {
          setSelect: [
            (one) => {
              const { left, width } = one.select;
              if (width === 0) return;
              if (choose.current === undefined) zoomed.current = true;
              const at = (position: number) => one.posToVal(position, 'x') * (time ? 1000 : 1);
              choose.current?.({ from: at(left), to: at(left + width) });
            },
          ],
          setCursor: [
            ({ cursor: { idx, left = -1 }, over }) =>
              setPointed(
                idx == null || left < 0
                  ? undefined
                  : { index: idx, left, right: left > over.clientWidth / 2 },
              ),
          ],
        },
      },
      latest.current,
      parent,
    );
    zoomed.current = false;
    made.over.addEventListener('dblclick', () => {
      zoomed.current = false;
      choose.current?.(undefined);
    });
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: HEIGHT }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [scheme, labels, banded, sparse, theme, time, xLabel, group, i18n.language]);

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
  }, [hidden, series, scheme, labels, banded, sparse, theme, time, xLabel, group]);

  const toggle = (label: string) => {
    const next = new Set(hidden);
    if (!next.delete(label)) next.add(label);
    setHidden(next);
  };
  const at = pointed === undefined ? undefined : data[0][pointed.index];

  return (
    <figure className={classes.figure}>
      <Group justify="space-between" wrap="nowrap" align="flex-start" gap="md" mb={6}>
        <Text component="figcaption" fw={600} size="sm">
          {title}
        </Text>
        <Legend series={series} data={data} hidden={hidden} onToggle={toggle} colorOf={colorOf} />
      </Group>
      <div className={classes.plot}>
        <div ref={element} role="img" aria-label={title} style={{ minHeight: HEIGHT }} />
        {pointed !== undefined && at != null && (
          <div
            className={classes.tip}
            // Beside the pointer, on the side with room.
            style={
              pointed.right ? { right: `calc(100% - ${pointed.left + 36}px)` } : { left: pointed.left + 64 }
            }
          >
            <div className={classes.at}>
              {time
                ? new Intl.DateTimeFormat(i18n.language, { timeStyle: 'medium' }).format(at * 1000)
                : `${xLabel} ${at}`}
            </div>
            {series.map((one, index) => (
              <Value
                key={one.label}
                label={one.label}
                value={hidden.has(one.label) ? undefined : data[index + 1]?.[pointed.index]}
                color={colorOf(index)}
              />
            ))}
          </div>
        )}
      </div>
    </figure>
  );
}

function Legend(props: {
  series: Series[];
  data: uPlot.AlignedData;
  hidden: ReadonlySet<string>;
  onToggle: (label: string) => void;
  colorOf: (index: number) => string;
}) {
  const { series, data, hidden, onToggle, colorOf } = props;
  return (
    <Group gap={10} justify="flex-end" className="numbers">
      {series.slice(0, LEGEND).map((one, index) => (
        <UnstyledButton
          key={one.label}
          className={classes.key}
          aria-pressed={!hidden.has(one.label)}
          onClick={() => onToggle(one.label)}
        >
          <span className={classes.swatch} style={{ background: colorOf(index) }} />
          {one.label} <b>{numberOf(endOf(one, data[index + 1]))}</b>
        </UnstyledButton>
      ))}
      {series.length > LEGEND && <Text size="xs">+{series.length - LEGEND}</Text>}
    </Group>
  );
}

function Value({ label, value, color }: { label: string; value: number | null | undefined; color: string }) {
  if (value == null) return null;
  return (
    <div className={classes.row}>
      <span className={classes.swatch} style={{ background: color }} />
      <span>{label}</span>
      <b>{numberOf(value)}</b>
    </div>
  );
}

function strokeOf(theme: MantineTheme, scheme: string, index: number): string {
  return theme.colors[COLORS[index % COLORS.length] ?? 'blue']?.[scheme === 'dark' ? 4 : 7] ?? 'gray';
}

interface Look {
  labels: string;
  banded: string;
  sparse: boolean;
  time: boolean;
  xLabel: string;
  group: string;
  dark: boolean;
  language: string;
}

/** How the chart is drawn, whatever its size and its points. */
function optionsOf(look: Look, colorOf: (index: number) => string): Omit<uPlot.Options, 'width' | 'height'> {
  const { labels, banded, sparse, time, xLabel, group, language } = look;
  const count = labels.split('\n').length;
  const ink = look.dark ? '#9aa1ab' : '#596069';
  const grid = { stroke: look.dark ? '#2a2f36' : '#eceef1', width: 1 };
  const axis = {
    stroke: ink,
    grid,
    ticks: { ...grid, size: 4 },
    font: '11px "Inter Variable", sans-serif',
  };
  return {
    scales: { x: { time }, y: { range: (_, low, high) => roomFor(low, high) } },
    bands: banded.split(' ').flatMap((index, order) => {
      const at = count + 1 + order * 2;
      return index === ''
        ? []
        : [{ series: [at, at + 1] as [number, number], fill: `${colorOf(Number(index))}33` }];
    }),
    legend: { show: false },
    // The pointer is at the same step in all charts of the group.
    cursor: { sync: { key: group }, points: { size: 6 } },
    axes: [
      // Its own words for the time of day are English.
      {
        ...axis,
        size: 28,
        ...(time && { values: (_, times) => times.map(clock(language, times)) }),
      },
      { ...axis, size: 48, values: (_, values) => values.map(shortened) },
    ],
    series: [
      { label: xLabel },
      ...labels.split('\n').map((label, index) => ({
        label,
        stroke: colorOf(index),
        width: 1.75,
        spanGaps: true,
        points: { show: sparse, size: 5 },
      })),
      // The edges of the bands: not drawn themselves.
      ...banded
        .split(' ')
        .filter(Boolean)
        .flatMap(() => [
          { stroke: 'transparent', points: { show: false } },
          { stroke: 'transparent', points: { show: false } },
        ]),
    ],
  };
}

function numberOf(value: number | undefined): string {
  return value === undefined ? '–' : String(Number(value.toPrecision(5)));
}

/** The number at the end of a line; one that is not finite has no place in the chart, and is told all the same. */
function endOf(series: Series, column: ArrayLike<number | null | undefined> | undefined): number | undefined {
  const end = series.points.at(-1)?.y;
  return end !== undefined && !Number.isFinite(end) ? end : last(column);
}

function last(column: ArrayLike<number | null | undefined> | undefined): number | undefined {
  for (let index = (column?.length ?? 0) - 1; index >= 0; index--) {
    const value = column?.[index];
    if (value != null) return value;
  }
  return undefined;
}

/** The time of day in the reader's language, with seconds where the axis has them. */
function clock(language: string, times: number[]) {
  const fine = times.some((time) => time % 60 !== 0);
  const format = new Intl.DateTimeFormat(language, {
    hour: '2-digit',
    minute: '2-digit',
    ...(fine && { second: '2-digit' }),
    hourCycle: 'h23',
  });
  return (time: number) => format.format(time * 1000);
}

/** uPlot wants one sorted x for all series, with gaps where a series has no point. */
function aligned(series: Series[], smoothing: number, time: boolean): uPlot.AlignedData {
  const scale = time ? 1000 : 1;
  const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point.x / scale)))].sort(
    (a, b) => a - b,
  );
  const column = (one: Series, values: number[]) => {
    const ys = smoothed(values, smoothing);
    const at = new Map(one.points.map((point, index) => [point.x / scale, ys[index]]));
    return xs.map((x) => {
      const y = at.get(x);
      return y === undefined || !Number.isFinite(y) ? null : y;
    });
  };
  const edges = series.flatMap((one) =>
    one.band === undefined
      ? []
      : [one.band.map((edge) => edge.high), one.band.map((edge) => edge.low)].map((values) =>
          column(one, values),
        ),
  );
  const lines = series.map((one) =>
    column(
      one,
      one.points.map((point) => point.y),
    ),
  );
  return [xs, ...lines, ...edges];
}

/** A little room above and below; a line that hardly moves is not made to look as if it did. */
function roomFor(low: number | null, high: number | null): [number, number] {
  if (low === null || high === null) return [0, 1];
  const least = Math.max(Math.abs(low), Math.abs(high)) * 0.02 || 1;
  const middle = (low + high) / 2;
  const half = Math.max(high - low, least) * 0.55;
  // What is never below nothing is not drawn below it.
  return [low >= 0 ? Math.max(0, middle - half) : middle - half, middle + half];
}
