import { Badge, Button, Checkbox, Group, Stack, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconSend } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { useFailed } from '@/components/failed';
import { IconButton } from '@/components/IconButton';
import { Ago } from '@/components/Time';
import type { Schemas } from '@/services/client';
import {
  useCreateWebhook,
  useDeleteWebhook,
  useTestWebhook,
  useWebhooks,
  WEBHOOK_EVENTS,
  type WebhookEvent,
} from '@/services/people';

import { Records } from './Records';
import { Secret } from './Secret';

/** Addresses that are told when a job of the namespace ends, fails or starts again. */
export function Webhooks({ namespace }: { namespace: string }) {
  const { t } = useTranslation();
  const hooks = useWebhooks(namespace);
  const create = useCreateWebhook(namespace);
  const remove = useDeleteWebhook();
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<string[]>(['failed']);
  return (
    <Records
      title={t('settings.webhooks')}
      hint={t('settings.webhooksHint', { namespace })}
      query={hooks}
      nameOf={(hook) => hook.id}
      columns={[
        [t('settings.webhookUrl'), (hook) => hook.url],
        [
          t('settings.webhookEvents'),
          (hook) => (
            <Group gap={4}>
              {WEBHOOK_EVENTS.filter((event) => hook.events.length === 0 || hook.events.includes(event)).map(
                (event) => (
                  <Badge key={event} color="gray">
                    {t(`settings.event.${event}`)}
                  </Badge>
                ),
              )}
            </Group>
          ),
        ],
        [t('settings.webhookState'), (hook) => <Delivery hook={hook} />],
      ]}
      tools={(hook) => <Test hook={hook} />}
      remove={{
        label: () => t('settings.webhookDelete'),
        question: (hook) => ({
          title: t('settings.webhookDeleteTitle'),
          text: t('settings.webhookDeleteText', { url: hook.url }),
          confirm: t('action.delete'),
        }),
        act: (hook) => remove.mutate(hook.id),
        error: remove.error,
      }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate({ url, events: events as WebhookEvent[] }, { onSuccess: () => setUrl('') });
        }}
      >
        <Stack gap="xs">
          <TextInput
            label={t('settings.newWebhook')}
            placeholder="https://hooks.example.com/training"
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
          />
          <Group align="flex-end" justify="space-between">
            <Checkbox.Group value={events} onChange={setEvents} label={t('settings.webhookEvents')}>
              <Group mt={4}>
                {WEBHOOK_EVENTS.map((event) => (
                  <Checkbox key={event} value={event} label={t(`settings.event.${event}`)} />
                ))}
              </Group>
            </Checkbox.Group>
            <Button type="submit" loading={create.isPending} disabled={url === '' || events.length === 0}>
              {t('settings.add')}
            </Button>
          </Group>
        </Stack>
      </form>
      {create.error !== null && <ErrorNote error={create.error} />}
      {create.data?.secret != null && (
        <Secret name={create.data.url} secret={create.data.secret}>
          {t('settings.webhookSecret')}
        </Secret>
      )}
    </Records>
  );
}

function Delivery({ hook }: { hook: Schemas['Webhook'] }) {
  if (hook.last_error != null)
    return (
      <Text size="sm" c="red" lang="en">
        {hook.last_error}
      </Text>
    );
  return hook.last_delivered_at == null ? '–' : <Ago time={hook.last_delivered_at} />;
}

function Test({ hook }: { hook: Schemas['Webhook'] }) {
  const { t } = useTranslation();
  const test = useTestWebhook();
  const failed = useFailed();
  const send = () =>
    test.mutate(hook.id, {
      onSuccess: ({ delivered, status, error }) =>
        delivered
          ? notifications.show({
              color: 'green',
              message: t('settings.webhookArrived', { status: status ?? '' }),
            })
          : failed(error ?? t('settings.webhookLost')),
      onError: (error) => failed(error),
    });
  return (
    <IconButton label={t('settings.webhookTest')} loading={test.isPending} onClick={send}>
      <IconSend size={16} stroke={1.5} />
    </IconButton>
  );
}
