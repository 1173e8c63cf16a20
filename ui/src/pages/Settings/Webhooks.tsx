import {
  ActionIcon,
  Alert,
  Badge,
  Button,
  Card,
  Checkbox,
  Group,
  Stack,
  Table,
  Text,
  TextInput,
  Title,
  Tooltip,
  VisuallyHidden,
} from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconSend, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { ago } from '@/libs/time';
import {
  useCreateWebhook,
  useDeleteWebhook,
  useTestWebhook,
  useWebhooks,
  WEBHOOK_EVENTS,
  type WebhookEvent,
} from '@/services/people';

import { Shown } from './Tokens';

/** Addresses that are told when a job of the namespace ends, fails or starts again. */
export function Webhooks({ namespace }: { namespace: string }) {
  const { t, i18n } = useTranslation();
  const hooks = useWebhooks(namespace);
  const create = useCreateWebhook(namespace);
  const remove = useDeleteWebhook();
  const test = useTestWebhook();
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<string[]>(['failed']);
  return (
    <Card withBorder component="section" aria-label={t('settings.webhooks')}>
      <Title order={3} size="h5">
        {t('settings.webhooks')}
      </Title>
      <Text size="sm" c="dimmed" mb="sm">
        {t('settings.webhooksHint', { namespace })}
      </Text>
      {hooks.error !== null && <ErrorNote error={hooks.error} onRetry={() => void hooks.refetch()} />}
      {(hooks.data ?? []).length > 0 && (
        <Table.ScrollContainer minWidth={560} mb="sm">
          <Table>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t('settings.webhookUrl')}</Table.Th>
                <Table.Th>{t('settings.webhookEvents')}</Table.Th>
                <Table.Th>{t('settings.webhookState')}</Table.Th>
                <Table.Th>
                  <VisuallyHidden>{t('action.delete')}</VisuallyHidden>
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {(hooks.data ?? []).map((hook) => (
                <Table.Tr key={hook.id} data-webhook={hook.url}>
                  <Table.Td style={{ wordBreak: 'break-all' }}>{hook.url}</Table.Td>
                  <Table.Td>
                    <Group gap={4}>
                      {WEBHOOK_EVENTS.filter(
                        (event) => hook.events.length === 0 || hook.events.includes(event),
                      ).map((event) => (
                        <Badge key={event} variant="light" tt="none">
                          {t(`settings.event.${event}`)}
                        </Badge>
                      ))}
                    </Group>
                  </Table.Td>
                  <Table.Td>
                    {hook.last_error != null ? (
                      <Text size="sm" c="red" lang="en">
                        {hook.last_error}
                      </Text>
                    ) : hook.last_delivered_at == null ? (
                      '–'
                    ) : (
                      ago(hook.last_delivered_at, i18n.language)
                    )}
                  </Table.Td>
                  <Table.Td>
                    <Group gap={2} wrap="nowrap">
                      <Tooltip label={t('settings.webhookTest')}>
                        <ActionIcon
                          variant="subtle"
                          aria-label={t('settings.webhookTest')}
                          onClick={() =>
                            test.mutate(hook.id, {
                              onSuccess: (result) =>
                                notifications.show({
                                  color: result.delivered ? 'green' : 'red',
                                  message: result.delivered
                                    ? t('settings.webhookArrived', { status: result.status ?? '' })
                                    : (result.error ?? t('settings.webhookLost')),
                                }),
                              onError: (error) =>
                                notifications.show({ color: 'red', message: error.message }),
                            })
                          }
                        >
                          <IconSend size={16} />
                        </ActionIcon>
                      </Tooltip>
                      <Tooltip label={t('action.delete')}>
                        <ActionIcon
                          variant="subtle"
                          color="red"
                          aria-label={t('settings.webhookDelete')}
                          onClick={() => remove.mutate(hook.id)}
                        >
                          <IconTrash size={16} />
                        </ActionIcon>
                      </Tooltip>
                    </Group>
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
          create.mutate({ url, events: events as WebhookEvent[] }, { onSuccess: () => setUrl('') });
        }}
      >
        <Stack gap="xs">
          <TextInput
            label={t('settings.webhookUrl')}
            placeholder="https://hooks.example.com/training"
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
          />
          <Checkbox.Group value={events} onChange={setEvents} label={t('settings.webhookEvents')}>
            <Group mt={4}>
              {WEBHOOK_EVENTS.map((event) => (
                <Checkbox key={event} value={event} label={t(`settings.event.${event}`)} />
              ))}
            </Group>
          </Checkbox.Group>
          <Group>
            <Button type="submit" loading={create.isPending} disabled={url === ''}>
              {t('settings.add')}
            </Button>
          </Group>
        </Stack>
      </form>
      {create.error !== null && <ErrorNote error={create.error} />}
      {create.data?.secret != null && <Shown name={create.data.url} secret={create.data.secret} />}
      {create.data?.secret != null && (
        <Alert mt="xs" color="gray">
          <Text size="sm">{t('settings.webhookSecret')}</Text>
        </Alert>
      )}
    </Card>
  );
}
