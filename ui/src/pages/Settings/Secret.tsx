import { Alert, Button, Code, CopyButton, Group } from '@mantine/core';
import { useTranslation } from 'react-i18next';

/** A secret that is shown this once, with a button to copy it. */
export function Secret({ name, secret, children }: { name: string; secret: string; children?: string }) {
  const { t } = useTranslation();
  return (
    <Alert mt="sm" color="green" title={t('settings.tokenOf', { name })}>
      <Group gap="xs">
        <Code style={{ wordBreak: 'break-all' }}>{secret}</Code>
        <CopyButton value={secret}>
          {({ copied, copy }) => (
            <Button size="compact-xs" variant="default" onClick={copy}>
              {copied ? t('action.copied') : t('action.copy')}
            </Button>
          )}
        </CopyButton>
      </Group>
      {children}
    </Alert>
  );
}
