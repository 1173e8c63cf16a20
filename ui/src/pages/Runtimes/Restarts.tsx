import { Button, Group, NumberInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { useFailed } from '@/components/failed';
import type { Schemas } from '@/services/client';
import { useSetMaxRestarts } from '@/services/places';

/** How often the jobs of a runtime are restarted, for those who may change it. */
export function Restarts({ runtime }: { runtime: Schemas['Runtime'] }) {
  const { t } = useTranslation();
  const [restarts, setRestarts] = useState<number | string>(runtime.max_restarts ?? '');
  const save = useSetMaxRestarts();
  const failed = useFailed();
  const changed = restarts !== '' && Number(restarts) !== runtime.max_restarts;
  return (
    <Group align="flex-end" gap="xs" wrap="nowrap">
      <NumberInput
        size="xs"
        w={128}
        aria-label={`${t('runtimes.maxRestarts')} ${runtime.name}`}
        placeholder={t('runtimes.byDefault')}
        min={0}
        max={1000}
        value={restarts}
        onChange={setRestarts}
      />
      {changed && (
        <Button
          size="xs"
          loading={save.isPending}
          onClick={() =>
            save.mutate(
              { name: runtime.name, maxRestarts: Number(restarts) },
              {
                onSuccess: () => notifications.show({ message: t('runtimes.saved', { name: runtime.name }) }),
                onError: (error) => failed(error),
              },
            )
          }
        >
          {t('action.save')}
        </Button>
      )}
    </Group>
  );
}
