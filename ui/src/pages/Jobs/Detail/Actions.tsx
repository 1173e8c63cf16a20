import { Button, Group, useMatches } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconCopy, IconPlayerPause, IconPlayerPlay, IconRefresh, IconTrash } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';

import { useConfirm } from '@/components/confirm';
import { useFailed } from '@/components/failed';
import { isFinished } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { type Action, useJobAction } from '@/services/jobs';

/** What can be done with the job in its present state. What loses something is asked first. */
export function Actions({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const action = useJobAction();
  const ask = useConfirm();
  const failed = useFailed();

  const act = (what: Action) =>
    action.mutate(
      { key: job, action: what },
      {
        onSuccess: (made) => {
          notifications.show({ message: t(`action.done.${what}`, { name: job.name }) });
          if (what === 'delete') void navigate(ROUTES.jobs);
          // Started again, it is a job of its own.
          if (what === 'restart' && made !== undefined)
            void navigate(ROUTES.job.path(made.namespace, made.trainjob_name));
        },
        onError: (error) => failed(error),
      },
    );
  const confirm = (what: 'suspend' | 'restart' | 'delete') =>
    ask({
      title: t(`action.confirm.${what}`, { name: job.name }),
      text: t(`action.confirmText.${what}`),
      confirm: t(`action.${what}`),
      danger: what === 'delete',
      onConfirm: () => act(what),
    });

  const busy = action.isPending;
  // Four of them fit side by side on a phone.
  const size = useMatches({ base: 'compact-sm', xs: 'xs' });
  const stopped = job.archived === true || isFinished(job.state);
  const buttons = [
    !stopped &&
      job.state !== 'Suspended' && {
        what: 'suspend' as const,
        icon: IconPlayerPause,
        // One that has not begun has nothing to lose.
        onClick: () => (job.state === 'Pending' ? act('suspend') : confirm('suspend')),
      },
    !stopped &&
      job.state === 'Suspended' && {
        what: 'resume' as const,
        icon: IconPlayerPlay,
        onClick: () => act('resume'),
      },
    { what: 'restart' as const, icon: IconRefresh, onClick: () => confirm('restart') },
    {
      what: 'clone' as const,
      icon: IconCopy,
      onClick: () => void navigate(`${ROUTES.submit}?clone=${job.namespace}/${job.name}`),
    },
    job.archived !== true && { what: 'delete' as const, icon: IconTrash, onClick: () => confirm('delete') },
  ].filter((button) => button !== false);
  return (
    <Group gap={6}>
      {buttons.map(({ what, icon: Icon, onClick }) => (
        <Button
          key={what}
          size={size}
          {...(what === 'delete' ? { color: 'red', variant: 'light' } : { variant: 'default' })}
          leftSection={<Icon size={14} />}
          onClick={onClick}
          loading={busy && what !== 'clone'}
        >
          {t(`action.${what}`)}
        </Button>
      ))}
    </Group>
  );
}
