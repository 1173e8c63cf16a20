import { Badge, Table, Text } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { ago } from '@/libs/time';
import { type JobKey, useJobEvents } from '@/services/jobs';

export function Events({ jobKey }: { jobKey: JobKey }) {
  const { t, i18n } = useTranslation();
  const events = useJobEvents(jobKey);
  if (events.error !== null) return <ErrorNote error={events.error} onRetry={() => void events.refetch()} />;
  if (events.data?.length === 0) return <Empty title={t('events.none')} />;
  return (
    <Table.ScrollContainer minWidth={640}>
      <Table verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t('events.when')}</Table.Th>
            <Table.Th>{t('events.reason')}</Table.Th>
            <Table.Th>{t('events.object')}</Table.Th>
            <Table.Th>{t('events.message')}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {(events.data ?? []).map((event, index) => (
            <Table.Tr key={index}>
              <Table.Td title={event.time} style={{ whiteSpace: 'nowrap' }}>
                {ago(event.time, i18n.language)}
                {event.count > 1 && (
                  <Text span size="xs" c="dimmed">
                    {' '}
                    ×{event.count}
                  </Text>
                )}
              </Table.Td>
              <Table.Td>
                <Badge variant="light" tt="none" color={event.type === 'Warning' ? 'orange' : 'gray'}>
                  {event.reason}
                </Badge>
              </Table.Td>
              <Table.Td style={{ wordBreak: 'break-all' }}>{event.object}</Table.Td>
              <Table.Td style={{ wordBreak: 'break-word' }} lang="en">
                {event.message}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
