import { Card, Table, Title } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { useVersion } from '@/services/places';

/** What server this is, and what the cluster behind it can do. */
export function Cluster() {
  const { t } = useTranslation();
  const version = useVersion();
  const rows = Object.entries(version.data ?? {}).filter(
    ([, value]) => ['string', 'number', 'boolean'].includes(typeof value) && value !== '',
  );
  if (rows.length === 0) return null;
  return (
    <Card withBorder component="section" aria-label={t('settings.cluster')}>
      <Title order={3} size="h5" mb="sm">
        {t('settings.cluster')}
      </Title>
      <Table withRowBorders={false}>
        <Table.Tbody>
          {rows.map(([key, value]) => (
            <Table.Tr key={key}>
              <Table.Th w={200}>{key}</Table.Th>
              <Table.Td style={{ wordBreak: 'break-word' }}>{String(value)}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
