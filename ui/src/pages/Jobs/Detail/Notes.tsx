import { Alert, Anchor, Code, Group, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconClock } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { plain } from '@/libs/ansi';
import { useNow } from '@/libs/now';
import { asSentence, useHint, useSaying } from '@/libs/saying';
import { duration } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { isHopeless } from '@/pages/Queue/order';
import { type JobKey, useWait } from '@/services/jobs';

import { RunAgain } from './RunAgain';

/** Why the job failed, in plain words, with the lines that show it. */
export function FailureNote({ failure, job }: { failure: Schemas['Failure']; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const say = useSaying();
  const hint = useHint()(failure);
  const what = t(`failure.${failure.kind}`);
  const last = failure.evidence.at(-1)?.trim() ?? '';
  const logs = new URLSearchParams({
    ...(failure.worker != null && { worker: String(failure.worker) }),
    ...(last !== '' && { q: last, case: '1' }),
  });
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle size={18} />}
      title={
        failure.worker != null && job.num_nodes > 1
          ? t('failure.onWorker', { what, worker: failure.worker })
          : what
      }
      data-failure
    >
      <Stack gap="xs">
        <Text size="sm">{say(failure)}</Text>
        {failure.evidence.length > 0 && (
          <Code
            block
            style={{ maxHeight: 220, overflow: 'auto' }}
            tabIndex={0}
            aria-label={t('failure.evidence')}
          >
            {failure.evidence.map(plain).join('\n')}
          </Code>
        )}
        {hint !== undefined && (
          <Text size="sm" fw={500}>
            {hint}
          </Text>
        )}
        <Group gap="md">
          <RunAgain failure={failure} job={job} />
          {last !== '' && (
            <Anchor
              component={Link}
              size="sm"
              to={`${ROUTES.job.path(job.namespace, job.name, 'logs')}?${logs.toString()}`}
            >
              {t('failure.inLog')}
            </Anchor>
          )}
        </Group>
      </Stack>
    </Alert>
  );
}

/** That the job makes no progress, and which of its ranks the others wait for. */
export function StalledNote({ stall, job }: { stall: Schemas['Stall']; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const say = useSaying();
  const now = useNow();
  const time = duration(Math.max(0, now - Date.parse(stall.since)));
  return (
    <Alert
      color="orange"
      icon={<IconAlertTriangle size={18} />}
      title={t('job.stalled')}
      data-stalled={stall.reason}
    >
      <Text size="sm">{asSentence(say(job))}</Text>
      <Text size="sm" c="dimmed">
        {t('job.stalledSince', { time })}
      </Text>
    </Alert>
  );
}

/** Why the job does not run yet, and when it may. */
export function WaitingNote({ waiting, jobKey }: { waiting: Schemas['Waiting']; jobKey: JobKey }) {
  const { t } = useTranslation();
  const say = useSaying();
  const seconds = useWait(jobKey);
  const hopeless = isHopeless(waiting.cause);
  const facts = [
    !hopeless && waiting.position != null && t('job.position', { position: waiting.position }),
    seconds != null && t('job.estimate', { time: duration(seconds * 1000) }),
  ].filter((fact) => fact !== false);
  return (
    <Alert
      color={hopeless ? 'red' : 'yellow'}
      icon={<IconClock size={18} />}
      title={hopeless ? t('job.cannotRun') : t('job.waits')}
      // It waits; nothing is wrong yet.
      role={hopeless ? 'alert' : 'status'}
      data-waiting={hopeless ? 'never' : 'yes'}
    >
      <Group justify="space-between" align="flex-end">
        <div>
          <Text size="sm">{asSentence(say(waiting))}</Text>
          {facts.length > 0 && (
            <Text size="sm" c="dimmed">
              {facts.join(' · ')}
            </Text>
          )}
        </div>
        <Anchor component={Link} size="sm" to={ROUTES.queue}>
          {t('job.toQueue')}
        </Anchor>
      </Group>
    </Alert>
  );
}
