import {
  Alert,
  Badge,
  Button,
  Card,
  Checkbox,
  Code,
  CopyButton,
  Group,
  Table,
  TextInput,
  Title,
} from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { answered, client } from '@/services/client';

/** Users, for administrators. A new user's token is shown once. */
export function Users() {
  const { t } = useTranslation();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [admin, setAdmin] = useState(false);
  const users = useQuery({ queryKey: ['users'], queryFn: () => answered(client.GET('/api/users')) });
  const add = useMutation({
    mutationFn: () => answered(client.POST('/api/users', { body: { name, admin } })),
    onSuccess: () => {
      setName('');
      setAdmin(false);
      void queries.invalidateQueries({ queryKey: ['users'] });
    },
  });
  return (
    <Card withBorder>
      <Title order={3} size="h5" mb="sm">
        {t('settings.users')}
      </Title>
      {users.error !== null && <ErrorNote error={users.error} />}
      <Table mb="sm">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t('settings.user')}</Table.Th>
            <Table.Th>{t('submit.namespace')}</Table.Th>
            <Table.Th>{t('settings.role')}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {(users.data ?? []).map((user) => (
            <Table.Tr key={user.name}>
              <Table.Td>{user.name}</Table.Td>
              <Table.Td>{user.namespace ?? '–'}</Table.Td>
              <Table.Td>
                <Badge variant="light" tt="none">
                  {user.admin ? t('settings.admin') : t('settings.member')}
                </Badge>
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          add.mutate();
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
      {add.data !== undefined && (
        <Alert mt="sm" color="green" title={t('settings.tokenOf', { name: add.data.name })}>
          <Group gap="xs">
            <Code>{add.data.token}</Code>
            <CopyButton value={add.data.token}>
              {({ copied, copy }) => (
                <Button size="compact-xs" variant="light" onClick={copy}>
                  {copied ? t('action.copied') : t('action.copy')}
                </Button>
              )}
            </CopyButton>
          </Group>
        </Alert>
      )}
    </Card>
  );
}
