import { Button, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconGitCompare, IconPlayerPause, IconTrash, IconX } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { useConfirm } from '@/components/confirm';
import { useFailed } from '@/components/failed';
import { isFinished } from '@/libs/state';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobAction } from '@/services/jobs';

import classes from './Jobs.module.css';

/** How many requests at a time when many jobs are stopped or deleted. */
const AT_ONCE = 8;

/** Stop or delete several at once, after a question, and say how it went. */
export function Bulk(props: {
  chosen: Schemas['JobSummary'][];
  /** How many of them are not in the list as it is shown now. */
  elsewhere: number;
  onDone: () => void;
}) {
  const { chosen, elsewhere, onDone } = props;
  const { t } = useTranslation();
  const action = useJobAction();
  const ask = useConfirm();
  const failed = useFailed();
  const [left, setLeft] = useState(0);
  const running = chosen.filter((job) => !isFinished(job.state) && job.state !== 'Suspended');
  const act = async (what: 'suspend' | 'delete') => {
    const waiting = [...(what === 'suspend' ? running : chosen)];
    const all = waiting.length;
    const failures: unknown[] = [];
    setLeft(waiting.length);
    const work = async () => {
      for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
        await action.mutateAsync({ key: job, action: what }).catch((error: unknown) => failures.push(error));
        setLeft((before) => before - 1);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const count = all - failures.length;
    if (count > 0) notifications.show({ message: t(`jobs.bulkDone.${what}`, { count }) });
    if (failures.length > 0) failed(failures[0], t('jobs.bulkFailed', { count: failures.length }));
    onDone();
  };
  const confirm = (what: 'suspend' | 'delete') =>
    ask({
      title: t(`jobs.${what}Title`, { count: what === 'suspend' ? running.length : chosen.length }),
      text: [t(`jobs.${what}Text`), elsewhere > 0 && `${t('jobs.elsewhere', { count: elsewhere })}.`]
        .filter(Boolean)
        .join(' '),
      confirm: t(`action.${what}`),
      danger: what === 'delete',
      onConfirm: () => void act(what),
    });
  return (
    <div className={classes.bulk} role="group" aria-label={t('jobs.selected', { count: chosen.length })}>
      <Text size="sm" fw={550}>
        {left > 0 ? t('jobs.bulkLeft', { count: left }) : t('jobs.selected', { count: chosen.length })}
        {elsewhere > 0 && left === 0 && (
          <Text span size="sm" c="dimmed">
            {' · '}
            {t('jobs.elsewhere', { count: elsewhere })}
          </Text>
        )}
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
