import { SegmentedControl, Stack } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import { useSearchParams } from 'react-router';

import type { JobKey } from '@/services/jobs';

import { Manifest } from './Manifest';
import { Preview } from './Preview';

/** For those who know Kubernetes: the job as it is stored, and what comes of it. */
export function Advanced({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const [search, setSearch] = useSearchParams();
  const view = search.get('view') === 'pods' ? 'pods' : 'yaml';
  return (
    <Stack gap="sm">
      <SegmentedControl
        size="xs"
        w="fit-content"
        aria-label={t('preview.view')}
        data={[
          { value: 'yaml', label: t('job.manifest') },
          { value: 'pods', label: t('preview.pods') },
        ]}
        value={view}
        onChange={(next) => setSearch(next === 'pods' ? { view: next } : {}, { replace: true })}
      />
      {view === 'yaml' ? <Manifest jobKey={jobKey} /> : <Preview jobKey={jobKey} />}
    </Stack>
  );
}
