import { Badge, Button, Group, Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { Moment } from '@/components/Time';
import type { Schemas } from '@/services/client';
import { useCreateToken, useRevokeToken, useTokens } from '@/services/people';

import { Records } from './Records';
import { Secret } from './Secret';

const DAY = 86_400;

/** The tokens with which programs and other browsers sign in as this user. A new one is shown once. */
export function Tokens() {
  const { t } = useTranslation();
  const tokens = useTokens();
  const create = useCreateToken();
  const revoke = useRevokeToken();
  const [name, setName] = useState('');
  const [days, setDays] = useState<string | null>('30');
  return (
    <Records
      title={t('settings.tokens')}
      hint={t('settings.tokensHint')}
      query={tokens}
      nameOf={(token) => `${token.name} ${token.id}`}
      columns={[
        [
          t('settings.tokenName'),
          (token) => (
            <>
              {token.name} {token.current && <Badge size="sm">{t('settings.thisToken')}</Badge>}
            </>
          ),
        ],
        [t('settings.user'), (token) => token.user],
        [t('settings.created'), (token) => <Moment time={token.created_at} />],
        [t('settings.expires'), (token) => <Expiry token={token} />],
      ]}
      remove={{
        label: (token) => t('settings.revokeOf', { name: token.name }),
        question: (token) => ({
          title: t('settings.revokeTitle', { name: token.name }),
          text: t('settings.revokeText'),
          confirm: t('settings.revoke'),
        }),
        act: (token) => revoke.mutate(token.id),
        error: revoke.error,
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate(
            { name, ...(days !== null && days !== '0' && { expires_in_seconds: Number(days) * DAY }) },
            { onSuccess: () => setName('') },
          );
        }}
      >
        <Group align="flex-end">
          <TextInput
            label={t('settings.newToken')}
            placeholder="laptop"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Select
            w={140}
            label={t('settings.expires')}
            data={[
              ...[7, 30, 365].map((count) => ({
                value: String(count),
                label: t('settings.days', { count }),
              })),
              { value: '0', label: t('settings.never') },
            ]}
            value={days}
            onChange={setDays}
            allowDeselect={false}
          />
          <Button type="submit" loading={create.isPending} disabled={name === ''}>
            {t('action.create')}
          </Button>
        </Group>
      </form>
      {create.error !== null && <ErrorNote error={create.error} />}
      {create.data !== undefined && <Secret name={create.data.name} secret={create.data.token} />}
    </Records>
  );
}

function Expiry({ token }: { token: Schemas['Token'] }) {
  const { t } = useTranslation();
  if (token.expired) return <Badge color="red">{t('settings.expired')}</Badge>;
  return token.expires_at == null ? t('settings.never') : <Moment time={token.expires_at} />;
}
