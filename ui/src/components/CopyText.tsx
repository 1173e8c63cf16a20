import { Button, CopyButton } from '@mantine/core';
import { IconCopy } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

/** Puts a text on the clipboard, and says so. */
export function CopyText({ text, size = 'xs' }: { text: string; size?: 'xs' | 'compact-xs' }) {
  const { t } = useTranslation();
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Button size={size} variant="default" leftSection={<IconCopy size={14} />} onClick={copy}>
          {copied ? t('action.copied') : t('action.copy')}
        </Button>
      )}
    </CopyButton>
  );
}
