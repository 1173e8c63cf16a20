import { Button, Menu, Text } from '@mantine/core';
import { IconHistory, IconTemplate } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { useRuntimes } from '@/services/places';

import type { Form } from './form';
import { filled, templatesOf } from './templates';

/** Places to start from: an example for each runtime that trains at once, and the job submitted last. */
export function Templates({
  onPick,
  onLast,
}: {
  onPick: (form: Partial<Form>) => void;
  onLast: (() => void) | undefined;
}) {
  const { t } = useTranslation();
  const runtimes = useRuntimes();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" data-templates leftSection={<IconTemplate size={16} />}>
          {t('submit.templates')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {templatesOf(runtimes.data ?? []).map((runtime) => (
          <Menu.Item key={runtime.name} onClick={() => void filled(runtime).then(onPick)}>
            {t('submit.example', { framework: runtime.title })}
            <Text size="xs" c="dimmed">
              {runtime.name}
            </Text>
          </Menu.Item>
        ))}
        {onLast !== undefined && (
          <>
            <Menu.Divider />
            <Menu.Item leftSection={<IconHistory size={16} />} onClick={onLast}>
              {t('submit.last')}
            </Menu.Item>
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
