import { Anchor, Badge, Skeleton, Stack, Table, Text, Title } from '@mantine/core';
import { IconServerOff } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { bytes, cores } from '@/libs/amounts';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useNodes } from '@/services/places';

import classes from './Nodes.module.css';
import { Use } from './Use';

const COLUMNS = ['name', 'instance', 'arch', 'os', 'capacity', 'gpu', 'cpu', 'memory', 'jobs'] as const;
/** What never changes gives way on a narrow screen; the page of the machine has it. */
const FIXED = { visibleFrom: 'lg' } as const;
const isFixed = (column: string) => ['arch', 'os', 'capacity'].includes(column);
/** On a phone only how full each is stays. */
const WIDE = { visibleFrom: 'sm' } as const;
const isWide = (column: string) => ['instance', 'gpu', 'jobs'].includes(column);

/** The machines: what they are, how full they are, and what runs on them. */
export function Nodes() {
  const { t } = useTranslation();
  const nodes = useNodes();
  return (
    <Stack>
      <Title order={2}>{t('nav.nodes')}</Title>
      {nodes.error !== null && <ErrorNote error={nodes.error} onRetry={() => void nodes.refetch()} />}
      {nodes.data === undefined && nodes.error === null && <Skeleton h={120} />}
      {nodes.data !== undefined && nodes.data.length > 1 && <Totals nodes={nodes.data} />}
      {nodes.data?.length === 0 && (
        <Empty title={t('nodes.none')} icon={IconServerOff}>
          {t('nodes.noneHint')}
        </Empty>
      )}
      {nodes.data !== undefined && nodes.data.length > 0 && (
        <div className="table gives">
          <Table.ScrollContainer minWidth={700} type="native">
            <Table>
              <Table.Thead>
                <Table.Tr>
                  {COLUMNS.map((column) => (
                    <Table.Th key={column} {...(isFixed(column) && FIXED)} {...(isWide(column) && WIDE)}>
                      {t(`nodes.${column}`)}
                    </Table.Th>
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
        </div>
      )}
    </Stack>
  );
}

/** All machines together, where there are several. */
function Totals({ nodes }: { nodes: Schemas['NodeInfo'][] }) {
  const { t } = useTranslation();
  const sum = (of: (node: Schemas['NodeInfo']) => number) =>
    nodes.reduce((total, node) => total + of(node), 0);
  const uses = [
    {
      label: 'CPU',
      used: sum((node) => node.used.cpu),
      total: sum((node) => node.capacity.cpu),
      text: cores,
    },
    {
      label: t('nodes.memory'),
      used: sum((node) => node.used.memory),
      total: sum((node) => node.capacity.memory),
      text: bytes,
    },
    { label: 'GPU', used: sum((node) => node.used.gpu), total: sum((node) => node.gpu_count), text: String },
  ];
  return (
    <div className={classes.totals}>
      <div className={classes.total}>
        <Text size="xs" c="dimmed">
          {t('nodes.ready')}
        </Text>
        <Text fw={600}>
          {nodes.filter((node) => node.ready).length} / {nodes.length}
        </Text>
      </div>
      {uses.map((use) => (
        <div key={use.label} className={classes.total}>
          <Text size="xs" c="dimmed" mb={4}>
            {use.label}
          </Text>
          <Use {...use} />
        </div>
      ))}
    </div>
  );
}

function NodeRow({ node }: { node: Schemas['NodeInfo'] }) {
  const { t } = useTranslation();
  return (
    <Table.Tr>
      <Table.Td>
        <Anchor component={Link} to={ROUTES.node.path(node.name)} fw={550} size="sm" c="inherit" mr={8}>
          {node.name}
        </Anchor>
        <Badge size="sm" color={node.ready ? 'green' : 'red'}>
          {node.ready ? t('nodes.ready') : t('nodes.notReady')}
        </Badge>
        {node.message != null && !node.ready && (
          <Text size="xs" c="dimmed" lang="en">
            {node.message}
          </Text>
        )}
      </Table.Td>
      <Table.Td className={classes.still} {...WIDE}>
        {node.instance_type ?? '–'}
        {node.zone != null && (
          <Text size="xs" c="dimmed">
            {node.zone}
          </Text>
        )}
      </Table.Td>
      <Table.Td {...FIXED}>{node.architecture}</Table.Td>
      <Table.Td {...FIXED} lang="en">
        {node.os}
      </Table.Td>
      <Table.Td {...FIXED}>{node.capacity_type ?? '–'}</Table.Td>
      <Table.Td {...WIDE}>
        <Use label="GPU" used={node.used.gpu} total={node.gpu_count} text={String} />
      </Table.Td>
      <Table.Td>
        <Use label="CPU" used={node.used.cpu} total={node.capacity.cpu} text={cores} />
      </Table.Td>
      <Table.Td>
        <Use label={t('nodes.memory')} used={node.used.memory} total={node.capacity.memory} text={bytes} />
      </Table.Td>
      <Table.Td className={classes.still} {...WIDE}>
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
                  title={job}
                >
                  {name}
                </Anchor>
              );
            })}
      </Table.Td>
    </Table.Tr>
  );
}
