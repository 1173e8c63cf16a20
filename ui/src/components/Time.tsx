import { useTranslation } from 'react-i18next';

import { useNow } from '@/libs/now';
import { ago, duration, moment } from '@/libs/time';

/** How long ago; the moment itself is behind it. */
export function Ago({ time }: { time: string }) {
  const { i18n } = useTranslation();
  const now = useNow();
  return (
    <time dateTime={time} title={moment(time, i18n.language)} style={{ whiteSpace: 'nowrap' }}>
      {ago(time, i18n.language, Math.max(now, Date.parse(time)))}
    </time>
  );
}

export function Moment({ time }: { time: string | null | undefined }) {
  const { i18n } = useTranslation();
  if (time == null) return '–';
  return (
    <time dateTime={time} title={ago(time, i18n.language)}>
      {moment(time, i18n.language)}
    </time>
  );
}

/** A duration that goes on: the seconds when it was read, and those since. The server's clock may differ from ours. */
export function Running({ seconds, since }: { seconds: number; since: number }) {
  const now = useNow();
  return <span>{duration(seconds * 1000 + Math.max(0, now - since))}</span>;
}
