import { Alert, Code, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconClock } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import type { Schemas } from '@/services/client';

/** Why the job failed, in plain words, with the lines that show it. */
export function FailureNote({ failure }: { failure: Schemas['Failure'] }) {
  const { t } = useTranslation();
  return (
    <Alert color="red" icon={<IconAlertTriangle size={18} />} title={t(`failure.${failure.kind}`)}>
      <Stack gap="xs">
        <Text size="sm">
          {failure.summary}
          {failure.worker != null && ` (${t('job.worker', { worker: failure.worker })})`}
        </Text>
        {failure.evidence.length > 0 && (
          <Code
            block
            style={{ maxHeight: 220, overflow: 'auto' }}
            tabIndex={0}
            aria-label={t('failure.evidence')}
          >
            {failure.evidence.join('\n')}
          </Code>
        )}
        {failure.hint != null && (
          <Text size="sm" fw={500}>
            {failure.hint}
          </Text>
        )}
      </Stack>
    </Alert>
  );
}

/** Why the job does not run yet, and when it may. */
export function WaitingNote({ waiting }: { waiting: Schemas['Waiting'] }) {
  const { t } = useTranslation();
  return (
    <Alert color="gray" icon={<IconClock size={18} />} title={t('job.waits')}>
      <Text size="sm">
        {waiting.reason}
        {waiting.position != null && ` · ${t('job.position', { position: waiting.position })}`}
      </Text>
    </Alert>
  );
}
