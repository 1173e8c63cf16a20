import { Badge, Skeleton, Table, Text } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { Ago } from '@/components/Time';
import { useHappening } from '@/libs/saying';
import { type JobKey, useJobEvents } from '@/services/jobs';

/** What happened to the job and its pods, the newest first. */
export function Events({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const happened = useHappening();
  const events = useJobEvents(jobKey);
  if (events.error !== null) return <ErrorNote error={events.error} onRetry={() => void events.refetch()} />;
  if (events.data === undefined) return <Skeleton h={240} />;
  if (events.data.length === 0) return <Empty title={t('events.none')}>{t('events.noneHint')}</Empty>;
  return (
    <div className="table gives">
      <Table.ScrollContainer minWidth={720} type="native">
        <Table layout="fixed">
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={110}>{t('events.when')}</Table.Th>
              <Table.Th w={190} visibleFrom="sm">
                {t('events.reason')}
              </Table.Th>
              <Table.Th>{t('events.message')}</Table.Th>
              <Table.Th w="28%" visibleFrom="sm">
                {t('events.object')}
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {events.data.toReversed().map((event, index) => {
              const own = happened(event);
              const [kind = '', name = ''] = event.object.split('/');
              return (
                <Table.Tr key={index}>
                  <Table.Td style={{ whiteSpace: 'nowrap' }}>
                    <Ago time={event.time} />
                    {event.count > 1 && (
                      <Text span size="xs" c="dimmed">
                        {' '}
                        ×{event.count}
                      </Text>
                    )}
                  </Table.Td>
                  <Table.Td visibleFrom="sm">
                    <Badge
                      color={event.type === 'Warning' ? 'orange' : 'gray'}
                      title={event.reason}
                      maw="100%"
                      lang="en"
                    >
                      {event.reason}
                    </Badge>
                  </Table.Td>
                  <Table.Td style={{ overflowWrap: 'anywhere' }}>
                    {own}
                    {own !== event.message && (
                      <Text size="xs" c="dimmed" lang="en">
                        {event.message}
                      </Text>
                    )}
                    <Text size="xs" c="dimmed" lang="en" hiddenFrom="sm">
                      {event.reason} · {kind} {name}
                    </Text>
                  </Table.Td>
                  <Table.Td title={event.object} visibleFrom="sm">
                    <Text size="sm" truncate>
                      {name}
                    </Text>
                    <Text size="xs" c="dimmed" lang="en">
                      {kind}
                    </Text>
                  </Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </div>
  );
}
