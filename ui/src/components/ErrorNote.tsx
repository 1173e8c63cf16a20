import { Alert, Button, Group, List, Text } from '@mantine/core';
import { IconAlertCircle } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { useProblem, useRefusal } from '@/libs/saying';
import { ApiError } from '@/services/client';

/** What went wrong, which fields, and what to do about it. */
export function ErrorNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { t } = useTranslation();
  const refused = useRefusal();
  const problem = useProblem();
  const api = error instanceof ApiError ? error : undefined;
  // The fields say it themselves; the message would only repeat the first of them.
  const fields = api?.fields ?? [];
  return (
    <Alert
      color="red"
      icon={<IconAlertCircle size={18} />}
      title={fields.length > 0 ? t('error.code.invalid_request') : t('error.title')}
      role="alert"
    >
      {fields.length === 0 && <Text size="sm">{problem(error)}</Text>}
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
