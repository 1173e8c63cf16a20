import { Button } from '@mantine/core';
import { IconPencil, IconRefresh } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { bytes } from '@/libs/amounts';
import { duration } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { largest } from '@/pages/Submit/sizes';
import { useCreate, useJobForm } from '@/services/jobs';
import { useNodes } from '@/services/places';

import { mendOf } from './mend';

/** What most would do next about a failure, in one press: run it again with more, as it was, or after a change. */
export function RunAgain({ failure, job }: { failure: Schemas['Failure']; job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const form = useJobForm(job);
  const machines = useNodes().data ?? [];
  const create = useCreate();
  const [key] = useState(() => crypto.randomUUID());
  // What no form made cannot be made again by one.
  if (form.data === undefined) return null;
  const mend = mendOf(failure, form.data, machines.length === 0 ? undefined : largest(machines).memory);
  if (mend.by === 'change')
    return (
      <Button
        size="xs"
        variant="default"
        component={Link}
        to={`${ROUTES.submit}?clone=${job.namespace}/${job.name}`}
        leftSection={<IconPencil size={14} />}
      >
        {t('failure.change')}
      </Button>
    );
  const label =
    mend.by === 'memory' || mend.by === 'sharedMemory'
      ? t(`failure.more.${mend.by}`, { size: bytes(mend.gib * 2 ** 30) })
      : mend.by === 'time'
        ? t('failure.more.time', { time: duration(mend.seconds * 1000) })
        : t('failure.again');
  return (
    <>
      <Button
        size="xs"
        color="red.9"
        loading={create.isPending}
        leftSection={<IconRefresh size={14} />}
        onClick={() =>
          create.mutate(
            { request: mend.request, key },
            { onSuccess: (made) => void navigate(ROUTES.job.path(made.namespace, made.trainjob_name)) },
          )
        }
      >
        {label}
      </Button>
      {create.error !== null && <ErrorNote error={create.error} />}
    </>
  );
}
