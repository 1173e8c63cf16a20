import { Anchor, Badge, Group, Progress, Stack, Table, Text, Title } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { bytes, cores } from '@/libs/amounts';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useNodes } from '@/services/places';

/** The machines: what they are, how full they are, and what runs on them. */
export function Nodes() {
  const { t } = useTranslation();
  const nodes = useNodes();
  return (
    <Stack>
      <Title order={2}>{t('nav.nodes')}</Title>
      {nodes.error !== null && <ErrorNote error={nodes.error} onRetry={() => void nodes.refetch()} />}
      {nodes.data?.length === 0 && <Empty title={t('nodes.none')}>{t('nodes.noneHint')}</Empty>}
      {nodes.data !== undefined && nodes.data.length > 0 && (
        <Table.ScrollContainer minWidth={980}>
          <Table verticalSpacing="sm">
            <Table.Thead>
              <Table.Tr>
                {(
                  ['name', 'instance', 'arch', 'os', 'gpu', 'capacity', 'cpu', 'memory', 'jobs'] as const
                ).map((column) => (
                  <Table.Th key={column}>{t(`nodes.${column}`)}</Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {nodes.data.map((node) => (
                <NodeRow key={node.name} node={node} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}

function NodeRow({ node }: { node: Schemas['NodeInfo'] }) {
  const { t } = useTranslation();
  return (
    <Table.Tr>
      <Table.Td>
        <Group gap="xs">
          <Text fw={500}>{node.name}</Text>
          <Badge size="sm" variant="light" color={node.ready ? 'green' : 'red'} tt="none">
            {node.ready ? t('nodes.ready') : t('nodes.notReady')}
          </Badge>
        </Group>
        {node.message != null && (
          <Text size="xs" c="dimmed" lang="en">
            {node.message}
          </Text>
        )}
      </Table.Td>
      <Table.Td>{node.instance_type ?? '–'}</Table.Td>
      <Table.Td>{node.architecture}</Table.Td>
      <Table.Td lang="en">{node.os}</Table.Td>
      <Table.Td>
        <Use label="GPU" used={node.used.gpu} total={node.gpu_count} text={String} />
      </Table.Td>
      <Table.Td>{node.capacity_type ?? '–'}</Table.Td>
      <Table.Td>
        <Use label="CPU" used={node.used.cpu} total={node.capacity.cpu} text={cores} />
      </Table.Td>
      <Table.Td>
        <Use label={t('nodes.memory')} used={node.used.memory} total={node.capacity.memory} text={bytes} />
      </Table.Td>
      <Table.Td>
        {node.jobs.length === 0
          ? '–'
          : node.jobs.map((job) => {
              const [namespace = '', name = ''] = job.split('/');
              return (
                <Anchor
                  key={job}
                  component={Link}
                  to={ROUTES.job.path(namespace, name)}
                  size="sm"
                  display="block"
                >
                  {name}
                </Anchor>
              );
            })}
      </Table.Td>
    </Table.Tr>
  );
}

function Use({
  label,
  used,
  total,
  text,
}: {
  label: string;
  used: number;
  total: number;
  text: (value: number) => string;
}) {
  if (total === 0) return <Text size="sm">–</Text>;
  return (
    <div style={{ minWidth: 90 }}>
      <Text size="xs">
        {text(used)} / {text(total)}
      </Text>
      <Progress
        size="sm"
        value={(used / total) * 100}
        color={used / total > 0.9 ? 'orange' : 'indigo'}
        aria-label={label}
      />
    </div>
  );
}
