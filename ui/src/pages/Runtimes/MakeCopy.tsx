import { Button, Group, Modal, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconCopyPlus } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { ROUTES } from '@/routes';
import { useCopyRuntime } from '@/services/places';

/** Another runtime like this one, under a name of its own: to change without touching what others use. */
export function MakeCopy({ of }: { of: string }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [opened, { open, close }] = useDisclosure();
  const [name, setName] = useState('');
  const copy = useCopyRuntime();
  return (
    <>
      <Button size="xs" variant="default" leftSection={<IconCopyPlus size={14} />} onClick={open}>
        {t('runtimes.copy')}
      </Button>
      <Modal opened={opened} onClose={close} title={t('runtimes.copyOf', { name: of })}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            copy.mutate(
              { name: of, copy: name },
              {
                onSuccess: (made) => {
                  close();
                  void navigate(ROUTES.runtime.path(made.name));
                },
              },
            );
          }}
        >
          <Stack>
            <Text size="sm">{t('runtimes.copyHint')}</Text>
            <TextInput
              data-autofocus
              label={t('submit.name')}
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
            />
            {copy.error !== null && <ErrorNote error={copy.error} />}
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>
                {t('action.cancel')}
              </Button>
              <Button type="submit" loading={copy.isPending} disabled={name === ''}>
                {t('action.create')}
              </Button>
            </Group>
          </Stack>
        </form>
      </Modal>
    </>
  );
}
