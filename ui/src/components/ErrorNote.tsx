import { Alert, Button, Group, List, Text } from '@mantine/core';
import { IconAlertCircle } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { ApiError, UNREACHABLE } from '@/services/client';

/** What went wrong, which fields, and what to do about it. */
export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { t } = useTranslation();
  const api = error instanceof ApiError ? error : undefined;
  const message =
    api?.status === UNREACHABLE
      ? t('login.unreachable')
      : error instanceof Error
        ? error.message
        : String(error);
  return (
    <Alert color="red" icon={<IconAlertCircle size={18} />} title={t('error.title')} role="alert">
      <Text size="sm">{message}</Text>
      {api !== undefined && api.fields.length > 0 && (
        <List size="sm" mt="xs">
          {api.fields.map((field) => (
            <List.Item key={`${field.field} ${field.message}`}>
              <b>{field.field}</b>: {field.message}
            </List.Item>
          ))}
        </List>
      )}
      {api?.hint !== undefined && (
        <Text size="sm" mt="xs" c="dimmed">
          {api.hint}
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
