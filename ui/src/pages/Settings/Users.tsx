import {
  ActionIcon,
  Badge,
  Button,
  Card,
  Checkbox,
  Group,
  Table,
  Text,
  TextInput,
  Title,
  Tooltip,
  VisuallyHidden,
} from '@mantine/core';
import { modals } from '@mantine/modals';
import { IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import type { Schemas } from '@/services/client';
import { useAddUser, useRemoveUser, useUsers } from '@/services/people';
import { useNamespaces } from '@/services/places';

import { Quota } from './Quota';
import { Shown } from './Tokens';

/** Users and what each may use, for administrators. A new user's token is shown once. */
export function Users({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const [name, setName] = useState('');
  const [admin, setAdmin] = useState(false);
  const users = useUsers();
  const namespaces = useNamespaces();
  const add = useAddUser();
  const remove = useRemoveUser();
  const quotaOf = (namespace: string | null | undefined) =>
    namespaces.data?.find((one) => one.name === namespace)?.quota;
  const ask = (user: string) =>
    modals.openConfirmModal({
      title: t('settings.removeUser', { name: user }),
      children: <Text size="sm">{t('settings.removeUserText')}</Text>,
      labels: { confirm: t('action.delete'), cancel: t('action.cancel') },
      confirmProps: { color: 'red.9' },
      closeButtonProps: { 'aria-label': t('action.cancel') },
      onConfirm: () => remove.mutate(user),
    });
  return (
    <Card withBorder component="section" aria-label={t('settings.users')}>
      <Title order={3} size="h5" mb="sm">
        {t('settings.users')}
      </Title>
      {users.error !== null && <ErrorNote error={users.error} />}
      {remove.error !== null && <ErrorNote error={remove.error} />}
      <Table.ScrollContainer minWidth={640} mb="sm">
        <Table>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t('settings.user')}</Table.Th>
              <Table.Th>{t('submit.namespace')}</Table.Th>
              <Table.Th>{t('settings.role')}</Table.Th>
              <Table.Th>{t('settings.quota')}</Table.Th>
              <Table.Th>
                <VisuallyHidden>{t('action.delete')}</VisuallyHidden>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {(users.data ?? []).map((user) => (
              <Table.Tr key={user.name} data-user={user.name}>
                <Table.Td>{user.name}</Table.Td>
                <Table.Td>{user.namespace ?? '–'}</Table.Td>
                <Table.Td>
                  <Badge variant="light" tt="none">
                    {user.admin ? t('settings.admin') : t('settings.member')}
                  </Badge>
                </Table.Td>
                <Table.Td>
                  {user.namespace == null ? (
                    '–'
                  ) : (
                    <Quota namespace={user.namespace} quota={quotaOf(user.namespace)} />
                  )}
                </Table.Td>
                <Table.Td>
                  {user.name !== me.user && (
                    <Tooltip label={t('action.delete')}>
                      <ActionIcon
                        variant="subtle"
                        color="red"
                        aria-label={t('settings.deleteUser', { name: user.name })}
                        onClick={() => ask(user.name)}
                      >
                        <IconTrash size={16} />
                      </ActionIcon>
                    </Tooltip>
                  )}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate(
            { name, admin },
            {
              onSuccess: () => {
                setName('');
                setAdmin(false);
              },
            },
          );
        }}
      >
        <Group align="flex-end">
          <TextInput
            label={t('settings.newUser')}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Checkbox
            mb={8}
            label={t('settings.admin')}
            checked={admin}
            onChange={(event) => setAdmin(event.currentTarget.checked)}
          />
          <Button type="submit" loading={add.isPending} disabled={name === ''}>
            {t('settings.add')}
          </Button>
        </Group>
      </form>
      {add.error !== null && <ErrorNote error={add.error} />}
      {add.data !== undefined && <Shown name={add.data.name} secret={add.data.token} />}
    </Card>
  );
}
