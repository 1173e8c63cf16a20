import { Modal, Stack, Group, Text } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { PAGES } from '@/navigation';

/** Keys as they are on the keyboard. */
export function Keys({ of }: { of: string }) {
  return (
    <span aria-hidden>
      {of.split(' ').map((key, index) => (
        <span key={index}>
          {index > 0 && ' '}
          <kbd className="key">{key.length === 1 ? key.toUpperCase() : key}</kbd>
        </span>
      ))}
    </span>
  );
}

/** All keys, for `?`. */
export function KeysHelp({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const rows: [string, string][] = [
    [t('nav.palette'), 'Ctrl K'],
    [t('keys.search'), '/'],
    ...PAGES.map(({ key, keys }): [string, string] => [t(`nav.${key}`), keys]),
    [t('keys.help'), '?'],
  ];
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={t('keys.title')}
      size="sm"
      closeButtonProps={{ 'aria-label': t('action.close') }}
      attributes={{ header: { role: 'presentation' } }}
    >
      <Stack gap={6}>
        {rows.map(([label, keys]) => (
          <Group key={label} justify="space-between">
            <Text size="sm">{label}</Text>
            <Keys of={keys} />
          </Group>
        ))}
        <Text size="xs" c="dimmed" mt="xs">
          {t('keys.off')}
        </Text>
      </Stack>
    </Modal>
  );
}
