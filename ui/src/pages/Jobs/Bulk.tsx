import { Button, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconGitCompare, IconPlayerPause, IconTrash, IconX } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { useConfirm } from '@/components/confirm';
import { isFinished } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobAction } from '@/services/jobs';

import classes from './Jobs.module.css';

/** How many requests at a time when many jobs are stopped or deleted. */
const AT_ONCE = 8;

/** Stop or delete several at once, after a question, and say how it went. */
export function Bulk({ chosen, onDone }: { chosen: Schemas['JobSummary'][]; onDone: () => void }) {
  const { t } = useTranslation();
  const action = useJobAction();
  const ask = useConfirm();
  const [left, setLeft] = useState(0);
  const running = chosen.filter((job) => !isFinished(job.state) && job.state !== 'Suspended');
  const act = async (what: 'suspend' | 'delete') => {
    const waiting = [...(what === 'suspend' ? running : chosen)];
    const all = waiting.length;
    const failed: string[] = [];
    setLeft(waiting.length);
    const work = async () => {
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        await action
          .mutateAsync({ key: job, action: what })
          .catch((error: Error) => failed.push(error.message));
        setLeft((before) => before - 1);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const count = all - failed.length;
    notifications.show({ message: t(`jobs.bulkDone.${what}`, { count }) });
    if (failed.length > 0)
      notifications.show({
        color: 'red',
        title: t('jobs.bulkFailed', { count: failed.length }),
        message: failed[0],
      });
    onDone();
  };
  const confirm = (what: 'suspend' | 'delete') =>
    ask({
      title: t(`jobs.${what}Title`, { count: what === 'suspend' ? running.length : chosen.length }),
      text: t(`jobs.${what}Text`),
      confirm: t(`action.${what}`),
      danger: what === 'delete',
      onConfirm: () => void act(what),
    });
  return (
    <div className={classes.bulk} role="group" aria-label={t('jobs.selected', { count: chosen.length })}>
      <Text size="sm" fw={550}>
        {left > 0 ? t('jobs.bulkLeft', { count: left }) : t('jobs.selected', { count: chosen.length })}
      </Text>
      <Group gap="xs">
        <Button
          component={Link}
          to={ROUTES.compared(chosen)}
          size="xs"
          variant="default"
          leftSection={<IconGitCompare size={14} />}
        >
          {t('compare.action')}
        </Button>
        <Button
          size="xs"
          variant="default"
          leftSection={<IconPlayerPause size={14} />}
          onClick={() => confirm('suspend')}
          loading={left > 0}
          disabled={running.length === 0}
        >
          {t('action.suspend')}
        </Button>
        <Button
          size="xs"
          variant="light"
          color="red"
          leftSection={<IconTrash size={14} />}
          onClick={() => confirm('delete')}
          loading={left > 0}
        >
          {t('action.delete')}
        </Button>
        <Button size="xs" variant="subtle" color="gray" leftSection={<IconX size={14} />} onClick={onDone}>
          {t('action.cancel')}
        </Button>
      </Group>
    </div>
  );
}
