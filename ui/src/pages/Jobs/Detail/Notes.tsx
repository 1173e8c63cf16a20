import { Alert, Anchor, Code, Group, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconClock } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { useHint, useSaying } from '@/libs/saying';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import type { JobKey } from '@/services/jobs';

/** Why the job failed, in plain words, with the lines that show it. */
export function FailureNote({ failure, jobKey }: { failure: Schemas['Failure']; jobKey: JobKey }) {
  const { t } = useTranslation();
  const say = useSaying();
  const hint = useHint()(failure);
  const last = failure.evidence.at(-1)?.trim() ?? '';
  const logs = new URLSearchParams({
    ...(failure.worker != null && { worker: String(failure.worker) }),
    ...(last !== '' && { q: last, case: '1' }),
  });
  return (
    <Alert color="red" icon={<IconAlertTriangle size={18} />} title={t(`failure.${failure.kind}`)}>
      <Stack gap="xs">
        <Text size="sm">{say(failure)}</Text>
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
        {hint !== undefined && (
          <Text size="sm" fw={500}>
            {hint}
          </Text>
        )}
        {last !== '' && (
          <Group>
            <Anchor
              component={Link}
              size="sm"
              to={`${ROUTES.job.path(jobKey.namespace, jobKey.name, 'logs')}?${logs.toString()}`}
            >
              {t('failure.inLog')}
            </Anchor>
          </Group>
        )}
      </Stack>
    </Alert>
  );
}

/** Why the job does not run yet, and when it may. */
export function WaitingNote({ waiting }: { waiting: Schemas['Waiting'] }) {
  const { t } = useTranslation();
  const say = useSaying();
  return (
    <Alert color="gray" icon={<IconClock size={18} />} title={t('job.waits')}>
      <Group justify="space-between">
        <Text size="sm">
          {say(waiting)}
          {waiting.position != null && ` · ${t('job.position', { position: waiting.position })}`}
        </Text>
        <Anchor component={Link} size="sm" to={ROUTES.queue}>
          {t('nav.queue')}
        </Anchor>
      </Group>
    </Alert>
  );
}
