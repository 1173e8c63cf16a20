import { Badge, Button, Checkbox, Group, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import type { Schemas } from '@/services/client';
import { useAddUser, useRemoveUser, useUsers } from '@/services/people';
import { useNamespaces } from '@/services/places';

import { Quota } from './Quota';
import { Records } from './Records';
import { Secret } from './Secret';

/** Users and what each may use, for administrators. A new user's token is shown once. */
export function Users({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const [name, setName] = useState('');
  const [admin, setAdmin] = useState(false);
  const users = useUsers();
  const namespaces = useNamespaces();
  const add = useAddUser();
  const remove = useRemoveUser();
  const quotaOf = (namespace: string) => namespaces.data?.find((one) => one.name === namespace)?.quota;
  return (
    <Records
      title={t('settings.users')}
      hint={t('settings.usersHint')}
      query={users}
      nameOf={(user) => user.name}
      columns={[
        [t('settings.user'), (user) => user.name],
        [t('submit.namespace'), (user) => user.namespace ?? '–'],
        [
          t('settings.role'),
          (user) => (
            <Badge color={user.admin ? 'indigo' : 'gray'}>
              {user.admin ? t('settings.admin') : t('settings.member')}
            </Badge>
          ),
        ],
        [
          t('settings.quota'),
          (user) =>
            user.namespace == null ? (
              '–'
            ) : (
              <Quota namespace={user.namespace} quota={quotaOf(user.namespace)} />
            ),
        ],
      ]}
      remove={{
        label: (user) => (user.name === me.user ? undefined : t('settings.deleteUser', { name: user.name })),
        question: (user) => ({
          title: t('settings.removeUser', { name: user.name }),
          text: t('settings.removeUserText'),
          confirm: t('action.delete'),
        }),
        act: (user) => remove.mutate(user.name),
        error: remove.error,
      }}
    >
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
      {add.data !== undefined && <Secret name={add.data.name} secret={add.data.token} />}
    </Records>
  );
}
