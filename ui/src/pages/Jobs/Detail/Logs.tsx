import { Button, Group, SegmentedControl, Select, Stack, Text } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { LogView } from '@/components/LogView';
import type { Schemas } from '@/services/client';
import { downloadUrl, useLogStream } from '@/services/logs';

/** The log of all workers merged by time, or of one; live, and after the end from the record. */
export function Logs({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const [worker, setWorker] = useState<string>('all');
  const [attempt, setAttempt] = useState<'current' | 'previous'>('current');
  const source = {
    namespace: job.namespace,
    name: job.name,
    worker: worker === 'all' ? undefined : Number(worker),
    previous: attempt === 'previous',
  };
  const { lines, version, state } = useLogStream(source);
  const workers = [...new Set(job.nodes.map((node) => node.worker))].sort((a, b) => a - b);

  return (
    <Stack gap="sm">
      <Group gap="sm">
        <Select
          w={180}
          aria-label={t('logs.worker')}
          data={[
            { value: 'all', label: t('logs.all') },
            ...workers.map((one) => ({ value: String(one), label: t('job.worker', { worker: one }) })),
          ]}
          value={worker}
          onChange={(value) => setWorker(value ?? 'all')}
          allowDeselect={false}
        />
        {(job.restarts > 0 || attempt === 'previous') && (
          <SegmentedControl
            size="xs"
            aria-label={t('logs.attempt')}
            data={[
              { value: 'current', label: t('logs.current') },
              { value: 'previous', label: t('logs.previousAttempt') },
            ]}
            value={attempt}
            onChange={(value) => setAttempt(value as 'current' | 'previous')}
          />
        )}
        <Button
          component="a"
          href={downloadUrl(source)}
          download
          variant="default"
          size="xs"
          leftSection={<IconDownload size={14} />}
          ml="auto"
        >
          {t('logs.download')}
        </Button>
      </Group>
      <LogView lines={lines} version={version} showWorker={worker === 'all' && workers.length > 1} />
      <Text size="xs" c="dimmed" role="status">
        {t(`logs.stream.${state}`)}
      </Text>
    </Stack>
  );
}
