import 'uplot/dist/uPlot.min.css';

import {
  Group,
  type MantineTheme,
  Text,
  UnstyledButton,
  useComputedColorScheme,
  useMantineTheme,
} from '@mantine/core';
import { type ReactNode, useCallback, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import type uPlot from 'uplot';

import { aligned, type Series } from '@/libs/plot';

import classes from './Curve.module.css';
import { HEIGHT, type Pointed, usePlot } from './usePlot';

interface Props {
  title: string;
  series: Series[];
  /** From 0 (raw) to below 1 (very smooth). */
  smoothing: number;
  xLabel: string;
  /** True where x is milliseconds since the epoch. */
  time?: boolean;
  /** True where a line that hardly moves should lie as high as it is. */
  fromZero?: boolean;
  /** Charts of the same group show the pointer at the same place. */
  group: string;
  /** Told of the part of x that was dragged over, if there are more points of it to be had; of nothing to show all again. */
  onPart?: (part: { from: number; to: number } | undefined) => void;
}

const COLORS = ['blue', 'orange', 'teal', 'grape', 'cyan', 'pink', 'lime', 'violet'];
/** More than these hide the chart; the pointer still tells the values of all. */
const LEGEND = 12;

/** Lines over a common x, with the numbers at the pointer, and zoom by dragging (double click shows all again). */
export function Curve(props: Props) {
  const { title, series, smoothing, xLabel, time = false, fromZero = false, group, onPart } = props;
  const { i18n } = useTranslation();
  const theme = useMantineTheme();
  const scheme = useComputedColorScheme('light');
  const data = useMemo(() => aligned(series, smoothing, time), [series, smoothing, time]);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const labels = series.map((one) => one.label).join('\n');
  // Which of them have a band; as text, so that equal ones do not redraw the chart.
  const banded = series.flatMap((one, index) => (one.band === undefined ? [] : [index])).join(' ');
  const sparse = series.every((one) => one.points.length < 30);
  const { language } = i18n;
  const look = useMemo(
    () => ({ labels, banded, sparse, time, xLabel, group, fromZero, dark: scheme === 'dark', language }),
    [labels, banded, sparse, time, xLabel, group, fromZero, scheme, language],
  );
  const colorOf = useCallback((index: number) => strokeOf(theme, scheme, index), [theme, scheme]);
  const { element, pointed } = usePlot({ series, data, hidden, look, colorOf, onPart });

  const toggle = (label: string) => {
    const next = new Set(hidden);
    if (!next.delete(label)) next.add(label);
    setHidden(next);
  };
  const at = pointed === undefined ? undefined : data[0][pointed.index];
  const clock = (seconds: number) =>
    new Intl.DateTimeFormat(language, { timeStyle: 'medium' }).format(seconds * 1000);

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
          <Tip pointed={pointed} at={time ? clock(at) : `${xLabel} ${at}`}>
            {series.map((one, index) => (
              <Value
                key={one.label}
                label={one.label}
                value={hidden.has(one.label) ? undefined : data[index + 1]?.[pointed.index]}
                color={colorOf(index)}
              />
            ))}
          </Tip>
        )}
      </div>
    </figure>
  );
}

/** The numbers beside the pointer, on the side with room. */
function Tip({ pointed, at, children }: { pointed: Pointed; at: string; children: ReactNode }) {
  const { left, right } = pointed;
  return (
    <div
      className={classes.tip}
      style={right ? { right: `calc(100% - ${left + 36}px)` } : { left: left + 64 }}
    >
      <div className={classes.at}>{at}</div>
      {children}
    </div>
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
