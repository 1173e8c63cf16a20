import {
  SegmentedControl,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  Title,
  useMantineColorScheme,
} from '@mantine/core';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Facts } from '@/components/Facts';
import { Section } from '@/components/Section';
import { LANGUAGES, type Language, speak } from '@/i18n';
import { setSingleKeys, singleKeys } from '@/libs/keys';
import type { Schemas } from '@/services/client';

import { Cluster } from './Cluster';
import { Tokens } from './Tokens';
import { Users } from './Users';
import { Webhooks } from './Webhooks';

export function Settings({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  return (
    <Stack maw={920}>
      <Title order={2}>{t('nav.settings')}</Title>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <Section title={t('settings.me')}>
          <Facts
            facts={[
              [t('settings.user'), me.user],
              [t('submit.namespace'), me.namespace ?? t('settings.allNamespaces')],
              [t('settings.role'), me.admin ? t('settings.admin') : t('settings.member')],
              ...(me.groups.length > 0
                ? [[t('settings.groups'), me.groups.join(', ')] as [string, string]]
                : []),
            ]}
          />
        </Section>
        <Look />
      </SimpleGrid>
      <Tokens />
      <Webhooks namespace={me.namespace ?? 'default'} />
      {me.admin && <Users me={me} />}
      <Cluster />
    </Stack>
  );
}

function Look() {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [keys, setKeys] = useState(singleKeys);
  return (
    <Section title={t('settings.look')}>
      <Stack gap="sm">
        <Choice label={t('nav.language')}>
          <SegmentedControl
            size="xs"
            aria-label={t('nav.language')}
            data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
            value={i18n.language}
            onChange={(value) => speak(value as Language)}
          />
        </Choice>
        <Choice label={t('settings.theme')}>
          <SegmentedControl
            size="xs"
            aria-label={t('settings.theme')}
            data={[
              { value: 'auto', label: t('settings.auto') },
              { value: 'light', label: t('settings.light') },
              { value: 'dark', label: t('settings.dark') },
            ]}
            value={colorScheme}
            onChange={(value) => setColorScheme(value as 'auto' | 'light' | 'dark')}
          />
        </Choice>
        <Switch
          size="xs"
          label={t('settings.keys')}
          checked={keys}
          onChange={(event) => {
            setKeys(event.currentTarget.checked);
            setSingleKeys(event.currentTarget.checked);
          }}
        />
      </Stack>
    </Section>
  );
}

function Choice({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <div>
      <Text size="sm" c="dimmed" mb={4}>
        {label}
      </Text>
      {children}
    </div>
  );
}
