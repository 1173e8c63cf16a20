import { Card, SegmentedControl, Stack, Table, Text, Title, useMantineColorScheme } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { LANGUAGES, type Language, speak } from '@/i18n';
import type { Schemas } from '@/services/client';

import { Cluster } from './Cluster';
import { Tokens } from './Tokens';
import { Users } from './Users';
import { Webhooks } from './Webhooks';

export function Settings({ me }: { me: Schemas['WhoAmI'] }) {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <Stack maw={900}>
      <Title order={2}>{t('nav.settings')}</Title>
      <Card withBorder>
        <Title order={3} size="h5" mb="sm">
          {t('settings.me')}
        </Title>
        <Table withRowBorders={false}>
          <Table.Tbody>
            <Table.Tr>
              <Table.Th w={160}>{t('settings.user')}</Table.Th>
              <Table.Td>{me.user}</Table.Td>
            </Table.Tr>
            <Table.Tr>
              <Table.Th>{t('submit.namespace')}</Table.Th>
              <Table.Td>{me.namespace ?? '–'}</Table.Td>
            </Table.Tr>
            <Table.Tr>
              <Table.Th>{t('settings.role')}</Table.Th>
              <Table.Td>{me.admin ? t('settings.admin') : t('settings.member')}</Table.Td>
            </Table.Tr>
          </Table.Tbody>
        </Table>
      </Card>
      <Card withBorder>
        <Title order={3} size="h5" mb="sm">
          {t('settings.look')}
        </Title>
        <Stack gap="sm">
          <div>
            <Text size="sm" mb={4}>
              {t('nav.language')}
            </Text>
            <SegmentedControl
              aria-label={t('nav.language')}
              data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
              value={i18n.language}
              onChange={(value) => speak(value as Language)}
            />
          </div>
          <div>
            <Text size="sm" mb={4}>
              {t('settings.theme')}
            </Text>
            <SegmentedControl
              aria-label={t('settings.theme')}
              data={[
                { value: 'auto', label: t('settings.auto') },
                { value: 'light', label: t('settings.light') },
                { value: 'dark', label: t('settings.dark') },
              ]}
              value={colorScheme}
              onChange={(value) => setColorScheme(value as 'auto' | 'light' | 'dark')}
            />
          </div>
        </Stack>
      </Card>
      <Tokens />
      <Webhooks namespace={me.namespace ?? 'default'} />
      {me.admin && <Users me={me} />}
      <Cluster />
    </Stack>
  );
}
