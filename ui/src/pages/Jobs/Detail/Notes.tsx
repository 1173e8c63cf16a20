import { Alert, Anchor, Button, Code, Group, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconClock, IconRefresh } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { bytes } from '@/libs/amounts';
import { asSentence, useHint, useSaying } from '@/libs/saying';
import { duration } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { isHopeless } from '@/pages/Queue/order';
import { gibibytes, inGibibytes } from '@/pages/Submit/form';
import { type JobKey, useCreate, useJobForm, useWait } from '@/services/jobs';

/** Why the job failed, in plain words, with the lines that show it. */
export function FailureNote({ failure, job }: { failure: Schemas['Failure']; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const say = useSaying();
  const hint = useHint()(failure);
  const last = failure.evidence.at(-1)?.trim() ?? '';
  const logs = new URLSearchParams({
    ...(failure.worker != null && { worker: String(failure.worker) }),
    ...(last !== '' && { q: last, case: '1' }),
  });
  return (
    <Alert
      color="red"
      icon={<IconAlertTriangle size={18} />}
      title={t(`failure.${failure.kind}`)}
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
            {failure.evidence.join('\n')}
          </Code>
        )}
        {hint !== undefined && (
          <Text size="sm" fw={500}>
            {hint}
          </Text>
        )}
        {MEMORY.includes(failure.kind) && <MoreMemory job={job} />}
        {last !== '' && (
          <Anchor
            component={Link}
            size="sm"
            w="fit-content"
            to={`${ROUTES.job.path(job.namespace, job.name, 'logs')}?${logs.toString()}`}
          >
            {t('failure.inLog')}
          </Anchor>
        )}
      </Stack>
    </Alert>
  );
}

/** What more memory would mend. */
const MEMORY: Schemas['FailureKind'][] = ['out_of_memory'];

/** The same job again with twice the memory, which is what most would do next. */
function MoreMemory({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const form = useJobForm(job);
  const create = useCreate();
  const [key] = useState(() => crypto.randomUUID());
  const limit = form.data?.memory_limit ?? form.data?.memory_request;
  if (form.data === undefined || limit == null) return null;
  const more = inGibibytes(limit) * 2;
  const request = { ...form.data, memory_request: gibibytes(more), memory_limit: gibibytes(more) };
  return (
    <>
      <Button
        size="xs"
        w="fit-content"
        color="red.9"
        loading={create.isPending}
        leftSection={<IconRefresh size={14} />}
        onClick={() =>
          create.mutate(
            { request, key },
            { onSuccess: (made) => void navigate(ROUTES.job.path(made.namespace, made.trainjob_name)) },
          )
        }
      >
        {t('failure.moreMemory', { size: bytes(more * 2 ** 30) })}
      </Button>
      {create.error !== null && <ErrorNote error={create.error} />}
    </>
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
