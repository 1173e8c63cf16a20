import { Alert, Button, Group, List, Text } from '@mantine/core';
import { IconAlertCircle } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { useRefusal } from '@/libs/saying';
import { ApiError, UNREACHABLE } from '@/services/client';

/** What went wrong, which fields, and what to do about it. */
export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { t, i18n } = useTranslation();
  const refused = useRefusal();
  const api = error instanceof ApiError ? error : undefined;
  const message =
    api?.status === UNREACHABLE
      ? t('login.unreachable')
      : i18n.language !== 'en' && i18n.exists(`error.code.${api?.code ?? ''}`)
        ? t(`error.code.${api?.code ?? ''}` as 'error.code.not_found')
        : error instanceof Error
          ? error.message
          : String(error);
  // The fields say it themselves; the message would only repeat the first of them.
  const fields = api?.fields ?? [];
  return (
    <Alert
      color="red"
      icon={<IconAlertCircle size={18} />}
      title={fields.length > 0 ? t('error.code.invalid_request') : t('error.title')}
      role="alert"
    >
      {fields.length === 0 && <Text size="sm">{message}</Text>}
      {fields.length > 0 && (
        <List size="sm">
          {fields.map((field) => (
            <List.Item key={`${field.field} ${field.message}`}>
              <b>{field.field}</b> {refused(field)}
            </List.Item>
          ))}
        </List>
      )}
      {/* What the server advises is for terminals too. */}
      {api?.code === 'forbidden' && (
        <Text size="sm" mt="xs" c="dimmed">
          {t('error.forbiddenHint')}
        </Text>
      )}
      {onRetry !== undefined && (
        <Group mt="sm">
          <Button size="xs" variant="light" color="red" onClick={onRetry}>
            {t('error.retry')}
          </Button>
        </Group>
      )}
    </Alert>
  );
}
