import { Button, Group, NumberInput, Popover, Stack, TextInput } from '@mantine/core';
import { IconDatabasePlus } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { useCreateClaim } from '@/services/places';

/** Makes a volume claim without leaving the form. */
export function NewClaim({ namespace, onMade }: { namespace: string; onMade: (name: string) => void }) {
  const { t } = useTranslation();
  const [opened, setOpened] = useState(false);
  const [name, setName] = useState('');
  const [size, setSize] = useState<number | string>(10);
  const create = useCreateClaim();
  const make = () =>
    create.mutate(
      { name, namespace, size: `${size}Gi` },
      {
        onSuccess: () => {
          setOpened(false);
          setName('');
          onMade(name);
        },
      },
    );
  return (
    <Popover opened={opened} onChange={setOpened} trapFocus withArrow width={300}>
      <Popover.Target>
        <Button
          size="xs"
          variant="light"
          leftSection={<IconDatabasePlus size={14} />}
          onClick={() => setOpened(!opened)}
        >
          {t('submit.newClaim')}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label={t('submit.newClaim')}>
        <Stack gap="xs">
          <TextInput
            label={t('submit.claimName')}
            placeholder="dataset"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <NumberInput label={t('submit.claimSize')} min={1} value={size} onChange={setSize} />
          {create.error !== null && <ErrorNote error={create.error} />}
          <Group justify="flex-end">
            <Button size="xs" onClick={make} loading={create.isPending} disabled={name === ''}>
              {t('action.create')}
            </Button>
          </Group>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
