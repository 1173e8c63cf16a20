import { Anchor, Stack, Table, Text, Title } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { amounts } from '@/libs/amounts';
import { useSaying } from '@/libs/saying';
import { ago } from '@/libs/time';
import { ROUTES } from '@/routes';
import { useQueue } from '@/services/places';

/** Who waits for what, in the order in which they will be served. */
export function Queue() {
  const { t, i18n } = useTranslation();
  const say = useSaying();
  const queue = useQueue();
  return (
    <Stack>
      <Title order={2}>{t('nav.queue')}</Title>
      {queue.error !== null && <ErrorNote error={queue.error} onRetry={() => void queue.refetch()} />}
      {queue.data?.items.length === 0 && <Empty title={t('queue.none')}>{t('queue.noneHint')}</Empty>}
      {queue.data !== undefined && queue.data.items.length > 0 && (
        <Table.ScrollContainer minWidth={720}>
          <Table verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                {(['position', 'job', 'priority', 'needs', 'reason', 'since'] as const).map((column) => (
                  <Table.Th key={column}>{t(`queue.${column}`)}</Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {queue.data.items.map((entry) => (
                <Table.Tr key={`${entry.namespace}/${entry.name}`}>
                  <Table.Td>{entry.position}</Table.Td>
                  <Table.Td>
                    <Anchor component={Link} to={ROUTES.job.path(entry.namespace, entry.name)}>
                      {entry.name}
                    </Anchor>
                    <Text size="xs" c="dimmed">
                      {entry.namespace}
                    </Text>
                  </Table.Td>
                  <Table.Td>{entry.priority}</Table.Td>
                  <Table.Td>{amounts(entry.needs)}</Table.Td>
                  <Table.Td>{say(entry)}</Table.Td>
                  <Table.Td title={entry.since}>{ago(entry.since, i18n.language)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {queue.data !== undefined && queue.data.hidden > 0 && (
        <Text size="sm" c="dimmed">
          {t('queue.hidden', { count: queue.data.hidden })}
        </Text>
      )}
    </Stack>
  );
}
