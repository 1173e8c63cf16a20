import {
  ActionIcon,
  Alert,
  Badge,
  Button,
  Card,
  Code,
  CopyButton,
  Group,
  Select,
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
import { moment } from '@/libs/time';
import { useCreateToken, useRevokeToken, useTokens } from '@/services/people';

const DAY = 86_400;

/** The tokens with which programs and other browsers sign in as this user. A new one is shown once. */
export function Tokens() {
  const { t, i18n } = useTranslation();
  const tokens = useTokens();
  const create = useCreateToken();
  const revoke = useRevokeToken();
  const [name, setName] = useState('');
  const [days, setDays] = useState<string | null>('30');
  const ask = (id: string, label: string) =>
    modals.openConfirmModal({
      title: t('settings.revokeTitle', { name: label }),
      children: <Text size="sm">{t('settings.revokeText')}</Text>,
      labels: { confirm: t('settings.revoke'), cancel: t('action.cancel') },
      confirmProps: { color: 'red.9' },
      closeButtonProps: { 'aria-label': t('action.cancel') },
      onConfirm: () => revoke.mutate(id),
    });
  return (
    <Card withBorder component="section" aria-label={t('settings.tokens')}>
      <Title order={3} size="h5">
        {t('settings.tokens')}
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        {t('settings.tokensHint')}
      </Text>
      {tokens.error !== null && <ErrorNote error={tokens.error} onRetry={() => void tokens.refetch()} />}
      {(tokens.data ?? []).length > 0 && (
        <Table.ScrollContainer minWidth={560} mb="sm">
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t('settings.tokenName')}</Table.Th>
                <Table.Th>{t('settings.user')}</Table.Th>
                <Table.Th>{t('settings.created')}</Table.Th>
                <Table.Th>{t('settings.expires')}</Table.Th>
                <Table.Th>
                  <VisuallyHidden>{t('settings.revoke')}</VisuallyHidden>
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {(tokens.data ?? []).map((token) => (
                <Table.Tr key={token.id} data-token={token.name}>
                  <Table.Td>
                    {token.name}{' '}
                    {token.current && (
                      <Badge size="sm" variant="light" tt="none">
                        {t('settings.thisToken')}
                      </Badge>
                    )}
                  </Table.Td>
                  <Table.Td>{token.user}</Table.Td>
                  <Table.Td>{moment(token.created_at, i18n.language)}</Table.Td>
                  <Table.Td>
                    {token.expired ? (
                      <Badge color="red" variant="light" tt="none">
                        {t('settings.expired')}
                      </Badge>
                    ) : token.expires_at == null ? (
                      t('settings.never')
                    ) : (
                      moment(token.expires_at, i18n.language)
                    )}
                  </Table.Td>
                  <Table.Td>
                    <Tooltip label={t('settings.revoke')}>
                      <ActionIcon
                        variant="subtle"
                        color="red"
                        aria-label={t('settings.revokeOf', { name: token.name })}
                        onClick={() => ask(token.id, token.name)}
                      >
                        <IconTrash size={16} />
                      </ActionIcon>
                    </Tooltip>
                  </Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
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
            w={160}
            label={t('settings.expires')}
            data={[
              { value: '7', label: t('settings.days', { count: 7 }) },
              { value: '30', label: t('settings.days', { count: 30 }) },
              { value: '365', label: t('settings.days', { count: 365 }) },
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
      {create.data !== undefined && <Shown name={create.data.name} secret={create.data.token} />}
    </Card>
  );
}

/** A secret that is shown this once, with a button to copy it. */
export function Shown({ name, secret }: { name: string; secret: string }) {
  const { t } = useTranslation();
  return (
    <Alert mt="sm" color="green" title={t('settings.tokenOf', { name })}>
      <Group gap="xs">
        <Code style={{ wordBreak: 'break-all' }}>{secret}</Code>
        <CopyButton value={secret}>
          {({ copied, copy }) => (
            <Button size="compact-xs" variant="light" onClick={copy}>
              {copied ? t('action.copied') : t('action.copy')}
            </Button>
          )}
        </CopyButton>
      </Group>
    </Alert>
  );
}
