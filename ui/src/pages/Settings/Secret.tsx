import { Alert, Code, Group } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { CopyText } from '@/components/CopyText';

/** A secret that is shown this once, with a button to copy it. */
export function Secret({ name, secret, children }: { name: string; secret: string; children?: string }) {
  const { t } = useTranslation();
  return (
    <Alert mt="sm" color="green" title={t('settings.tokenOf', { name })}>
      <Group gap="xs">
        <Code style={{ wordBreak: 'break-all' }}>{secret}</Code>
        <CopyText text={secret} size="compact-xs" />
      </Group>
      {children}
    </Alert>
  );
}
