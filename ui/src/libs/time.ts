/** Times as people read them, in the viewer's own zone and language. */

/** The units of a duration, largest first; a language may have its own. */
const UNITS: Record<string, [string, string, string, string]> = {
  en: ['d', 'h', 'm', 's'],
  ko: ['일', '시간', '분', '초'],
};

export function duration(milliseconds: number, language = spoken()): string {
  const [d, h, m, s] = UNITS[language] ?? ['d', 'h', 'm', 's'];
  const total = Math.max(0, Math.floor(milliseconds / 1000));
  const [days, hours, minutes, seconds] = [
    Math.floor(total / 86400),
    Math.floor(total / 3600) % 24,
    Math.floor(total / 60) % 60,
    total % 60,
  ];
  // The two largest units, without one that is nothing.
  const two = (large: number, one: string, small: number, other: string) =>
    small === 0 ? `${large}${one}` : `${large}${one} ${small}${other}`;
  if (days > 0) return two(days, d, hours, h);
  if (hours > 0) return two(hours, h, minutes, m);
  if (minutes > 0) return two(minutes, m, seconds, s);
  return `${seconds}${s}`;
}

export function between(
  from: string | null | undefined,
  to: string | null | undefined,
  now = Date.now(),
): string {
  if (!from) return '–';
  return duration((to ? Date.parse(to) : now) - Date.parse(from));
}

const relative = perLanguage(
  (language) => new Intl.RelativeTimeFormat(language, { numeric: 'auto', style: 'narrow' }),
);
const absolute = perLanguage(
  (language) => new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'medium' }),
);

/** A format takes longer to make than a hundred uses of it, and a list of jobs has a hundred of them each second. */
function perLanguage<Format>(make: (language: string) => Format): (language: string) => Format {
  const made = new Map<string, Format>();
  return (language) => {
    const format = made.get(language) ?? make(language);
    made.set(language, format);
    return format;
  };
}

export function ago(time: string, language: string, now = Date.now()): string {
  const seconds = (Date.parse(time) - now) / 1000;
  const format = relative(language);
  const steps: [Intl.RelativeTimeFormatUnit, number][] = [
    ['day', 86400],
    ['hour', 3600],
    ['minute', 60],
  ];
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(Math.trunc(seconds), 'second');
}

export function moment(time: string | null | undefined, language: string): string {
  if (!time) return '–';
  return absolute(language).format(new Date(time));
}

/** The time of day to the millisecond, for the lines of a log. */
export function clock(time: string): string {
  const date = new Date(time);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

function spoken(): string {
  return typeof document === 'undefined' ? 'en' : document.documentElement.lang;
}
