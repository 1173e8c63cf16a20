import { Button, Group, NumberInput, Popover, Stack, Text } from '@mantine/core';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import type { Schemas } from '@/services/client';
import { useSetQuota } from '@/services/people';

const FIELDS = [
  { key: 'requests.cpu', label: 'CPU', unit: '' },
  { key: 'requests.memory', label: 'memory', unit: 'Gi' },
  { key: 'requests.nvidia.com/gpu', label: 'GPU', unit: '' },
] as const;

/** What a namespace may use at most, as it is used, and to be changed. */
export function Quota({
  namespace,
  quota,
}: {
  namespace: string;
  quota: Schemas['Quota'] | null | undefined;
}) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const hard = quota?.hard ?? {};
  const [values, setValues] = useState<Record<string, number | string>>({});
  const save = useSetQuota();
  const open = () => {
    setValues(Object.fromEntries(FIELDS.map(({ key, unit }) => [key, plain(hard[key], unit)])));
    setOpened(true);
  };
  const words = FIELDS.filter(({ key }) => hard[key] !== undefined).map(
    ({ key, label }) =>
      `${label === 'memory' ? t('nodes.memory') : label} ${quota?.used?.[key] ?? '0'} / ${hard[key] ?? ''}`,
  );
  return (
    <Popover opened={opened} onChange={setOpened} trapFocus withArrow width={260} position="bottom-start">
      <Popover.Target>
        <Group gap="xs" wrap="nowrap">
          <Text size="sm">{words.length === 0 ? t('settings.noQuota') : words.join(' · ')}</Text>
          <Button
            size="compact-xs"
            variant="subtle"
            aria-label={t('settings.quotaOf', { namespace })}
            onClick={opened ? () => setOpened(false) : open}
          >
            {t('settings.change')}
          </Button>
        </Group>
      </Popover.Target>
      <Popover.Dropdown aria-label={t('settings.quotaOf', { namespace })}>
        <Stack gap="xs">
          {FIELDS.map(({ key, label }) => (
            <NumberInput
              key={key}
              size="xs"
              label={label === 'memory' ? t('submit.memory') : label}
              placeholder={t('settings.noQuota')}
              min={0}
              value={values[key] ?? ''}
              onChange={(value) => setValues({ ...values, [key]: value })}
            />
          ))}
          {save.error !== null && <ErrorNote error={save.error} />}
          <Button
            size="xs"
            loading={save.isPending}
            onClick={() =>
              save.mutate(
                {
                  namespace,
                  hard: Object.fromEntries(
                    FIELDS.flatMap(({ key, unit }) => {
                      const value = values[key] ?? '';
                      return value === '' ? [] : [[key, `${value}${unit}`]];
                    }),
                  ),
                },
                { onSuccess: () => setOpened(false) },
              )
            }
          >
            {t('action.save')}
          </Button>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

/** A quantity as a number of its unit; one in another unit is left for whoever wrote it. */
function plain(quantity: string | undefined, unit: string): number | '' {
  if (quantity === undefined || !quantity.endsWith(unit)) return '';
  const value = Number(quantity.slice(0, quantity.length - unit.length));
  return Number.isNaN(value) ? '' : value;
}
