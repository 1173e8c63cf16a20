import { Button, Group, Text } from '@mantine/core';
import { modals } from '@mantine/modals';
import { notifications } from '@mantine/notifications';
import { IconCopy, IconPlayerPause, IconPlayerPlay, IconRefresh, IconTrash } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';

import { isFinished } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { type Action, useJobAction } from '@/services/jobs';

/** What can be done with the job in its present state. What loses something is asked first; the rest can be undone. */
export function Actions({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const action = useJobAction();

  const act = (what: Action, undo?: Action) =>
    action.mutate(
      { key: job, action: what },
      {
        onSuccess: (made) => {
          const id = notifications.show({
            autoClose: undo === undefined ? 4000 : 10_000,
            message: (
              <Group justify="space-between" wrap="nowrap">
                <Text size="sm">{t(`action.done.${what}`, { name: job.name })}</Text>
                {undo !== undefined && (
                  <Button
                    size="compact-xs"
                    variant="light"
                    onClick={() => {
                      notifications.hide(id);
                      act(undo);
                    }}
                  >
                    {t('action.undo')}
                  </Button>
                )}
              </Group>
            ),
          });
          if (what === 'delete') void navigate(ROUTES.jobs);
          // Started again, it is a job of its own.
          if (what === 'restart' && made !== undefined)
            void navigate(ROUTES.job.path(made.namespace, made.trainjob_name));
        },
        onError: (error) => notifications.show({ color: 'red', message: error.message }),
      },
    );
  const confirm = (what: 'restart' | 'delete') =>
    modals.openConfirmModal({
      title: t(`action.confirm.${what}`, { name: job.name }),
      children: <Text size="sm">{t(`action.confirmText.${what}`)}</Text>,
      labels: { confirm: t(`action.${what}`), cancel: t('action.cancel') },
      confirmProps: { color: what === 'delete' ? 'red.9' : undefined },
      closeButtonProps: { 'aria-label': t('action.cancel') },
      onConfirm: () => act(what),
    });

  const busy = action.isPending;
  return (
    <Group gap="xs">
      {!job.archived && !isFinished(job.state) && job.state !== 'Suspended' && (
        <Button
          variant="default"
          size="xs"
          leftSection={<IconPlayerPause size={14} />}
          onClick={() => act('suspend', 'resume')}
          loading={busy}
        >
          {t('action.suspend')}
        </Button>
      )}
      {job.state === 'Suspended' && !job.archived && (
        <Button
          variant="default"
          size="xs"
          leftSection={<IconPlayerPlay size={14} />}
          onClick={() => act('resume', 'suspend')}
          loading={busy}
        >
          {t('action.resume')}
        </Button>
      )}
      <Button
        variant="default"
        size="xs"
        leftSection={<IconRefresh size={14} />}
        onClick={() => confirm('restart')}
        loading={busy}
      >
        {t('action.restart')}
      </Button>
      <Button
        variant="default"
        size="xs"
        leftSection={<IconCopy size={14} />}
        onClick={() => void navigate(`${ROUTES.submit}?clone=${job.namespace}/${job.name}`)}
      >
        {t('action.clone')}
      </Button>
      {!job.archived && (
        <Button
          color="red"
          variant="light"
          size="xs"
          leftSection={<IconTrash size={14} />}
          onClick={() => confirm('delete')}
          loading={busy}
        >
          {t('action.delete')}
        </Button>
      )}
    </Group>
  );
}
