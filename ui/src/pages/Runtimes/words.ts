import { useTranslation } from 'react-i18next';

import { duration } from '@/libs/time';
import type { Schemas } from '@/services/client';

type Runtime = Schemas['Runtime'];

/** What a runtime is for, in the reader's language if it says so, otherwise in English. */
export function useDescription(): (runtime: Runtime) => string {
  const { i18n } = useTranslation();
  return ({ descriptions = {} }) => descriptions[i18n.language] ?? descriptions['en'] ?? '';
}

export function useFacts(): (runtime: Runtime) => [string, string][] {
  const { t } = useTranslation();
  return (runtime) => [
    [t('job.image'), runtime.image ?? '–'],
    [t('runtimes.steps'), runtime.jobs.join(' → ')],
    [t('runtimes.nodes'), String(runtime.num_nodes)],
    [
      t('runtimes.ttl'),
      runtime.ttl_seconds == null
        ? t('runtimes.kept')
        : t('runtimes.after', { time: duration(runtime.ttl_seconds * 1000) }),
    ],
  ];
}
