import { Anchor, MultiSelect, Stack, Text } from '@mantine/core';
import { IconGitCompare } from '@tabler/icons-react';
import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useSearchParams } from 'react-router';

import { UsageCharts } from '@/components/UsageCharts';
import { useSettled } from '@/libs/debounced';
import { isFinished } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { type JobKey, useJobs, useJobUsage } from '@/services/jobs';

import { Curves } from './Curves';

/** Curves of everything the job reports, and beside them those of other jobs to compare with. */
export function Metrics({ jobKey, job }: { jobKey: JobKey; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  // In the address, so that it can be shared and is there after a reload.
  const [search, setSearch] = useSearchParams();
  const compared = search.get('with') ?? '';
  const others = useMemo(() => compared.split(',').filter(Boolean), [compared]);
  const { namespace, name } = jobKey;
  // Of many, those that what is typed finds.
  const [typed, setTyped] = useState('');
  const looked = useSettled(typed.trim());
  const jobs = useJobs({ namespace, ...(looked !== '' && { q: looked }) });
  const found = (jobs.data?.items ?? []).map((one) => one.name);
  const usage = useJobUsage(job);
  const keys = useMemo(
    () => [name, ...others].map((one) => ({ namespace, name: one })),
    [namespace, name, others],
  );
  return (
    <Stack>
      <Curves jobs={keys} live={!isFinished(job.state)}>
        <MultiSelect
          size="xs"
          w={{ base: '100%', xs: 320 }}
          aria-label={t('metrics.compare')}
          placeholder={others.length === 0 ? t('metrics.compare') : ''}
          data={[...new Set([...others, ...found])].filter((one) => one !== name)}
          searchValue={typed}
          onSearchChange={setTyped}
          value={others}
          onChange={(next) => setSearch(next.length === 0 ? {} : { with: next.join(',') }, { replace: true })}
          nothingFoundMessage={t('metrics.noOther')}
          leftSection={<IconGitCompare size={15} />}
          searchable
          clearable
        />
        {others.length > 0 && (
          <Anchor component={Link} size="sm" to={ROUTES.compared(keys)}>
            {t('compare.settings')}
          </Anchor>
        )}
      </Curves>
      {(job.metrics_left_out ?? 0) > 0 && (
        <Text size="xs" c="dimmed">
          {t('metrics.leftOut', { count: job.metrics_left_out ?? 0 })}
        </Text>
      )}
      <UsageCharts usage={usage.data} />
    </Stack>
  );
}
