import { Anchor, Badge, Skeleton, Stack, Table, Text, Title } from '@mantine/core';
import { IconMoodSmile } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { Ago } from '@/components/Time';
import { asSentence, useSaying, useSize } from '@/libs/saying';
import { ROUTES } from '@/routes';
import { useLiveJobs } from '@/services/jobs';
import { useQueue } from '@/services/places';

import { Holding } from './Holding';
import { inOrder, isHopeless } from './order';

const COLUMNS = ['position', 'job', 'priority', 'needs', 'reason', 'since'] as const;
/** What gives way on a phone, where the reason is what one wants to know. */
const WIDE = { visibleFrom: 'sm' } as const;
const isWide = (column: string) => ['priority', 'needs', 'since'].includes(column);

/** What runs, and who waits for what in the order in which they will be served. */
export function Queue() {
  const { t } = useTranslation();
  useLiveJobs();
  return (
    <Stack>
      <Title order={2}>{t('nav.queue')}</Title>
      <Waiting />
      <Holding />
    </Stack>
  );
}

function Waiting() {
  const { t } = useTranslation();
  const say = useSaying();
  const sizeOf = useSize();
  const queue = useQueue();
  return (
    <>
      <div>
        <Title order={3} size="h5">
          {t('queue.waiting')}
        </Title>
        <Text size="sm" c="dimmed">
          {t('queue.hint')}
        </Text>
      </div>
      {queue.error !== null && <ErrorNote error={queue.error} onRetry={() => void queue.refetch()} />}
      {queue.data === undefined && queue.error === null && <Skeleton h={120} />}
      {queue.data?.items.length === 0 && (
        <Empty title={queue.data.hidden > 0 ? t('queue.noneOfYours') : t('queue.none')} icon={IconMoodSmile}>
          {queue.data.hidden > 0 ? t('queue.hidden', { count: queue.data.hidden }) : t('queue.noneHint')}
        </Empty>
      )}
      {queue.data !== undefined && queue.data.items.length > 0 && (
        <div className="table gives">
          <Table.ScrollContainer minWidth={760} type="native">
            <Table>
              <Table.Thead>
                <Table.Tr>
                  {COLUMNS.map((column) => (
                    <Table.Th
                      key={column}
                      w={column === 'reason' ? '45%' : undefined}
                      {...(isWide(column) && WIDE)}
                    >
                      {t(`queue.${column}`)}
                    </Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {inOrder(queue.data.items).map((entry) => (
                  <Table.Tr key={`${entry.namespace}/${entry.name}`} data-queued={entry.name}>
                    <Table.Td>
                      {isHopeless(entry.cause) ? (
                        <Badge color="red" miw="max-content">
                          {t('queue.never')}
                        </Badge>
                      ) : (
                        entry.position
                      )}
                    </Table.Td>
                    <Table.Td style={{ overflowWrap: 'anywhere' }} miw={110}>
                      <Anchor
                        component={Link}
                        to={ROUTES.job.path(entry.namespace, entry.name)}
                        fw={550}
                        fz="sm"
                        c="inherit"
                      >
                        {entry.name}
                      </Anchor>
                      <Text size="xs" c="dimmed">
                        {entry.namespace}
                      </Text>
                    </Table.Td>
                    <Table.Td {...WIDE}>{entry.priority}</Table.Td>
                    <Table.Td style={{ whiteSpace: 'nowrap' }} {...WIDE}>
                      {sizeOf(entry.needs)}
                    </Table.Td>
                    <Table.Td>{asSentence(say(entry))}</Table.Td>
                    <Table.Td {...WIDE}>
                      <Ago time={entry.since} />
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        </div>
      )}
      {queue.data !== undefined && queue.data.items.length > 0 && queue.data.hidden > 0 && (
        <Text size="sm" c="dimmed">
          {t('queue.hidden', { count: queue.data.hidden })}
        </Text>
      )}
    </>
  );
}
