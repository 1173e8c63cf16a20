import { Anchor, Badge, Card, Group, Progress, SimpleGrid, Text, Tooltip } from '@mantine/core';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Section } from '@/components/Section';
import { bytes, cores } from '@/libs/amounts';
import { between } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useJobUsage } from '@/services/jobs';

import classes from './Nodes.module.css';

type Node = Schemas['JobNode'];

/** Above this, a card for each would hide the one that differs. */
const CARDS = 12;

/** The nodes as a grid with each one's state and use; each leads to its log. */
export function Nodes({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const usage = useJobUsage(job);
  const used = (node: Node) =>
    usage.data?.series.find((one) => one.worker === node.worker && node.role === 'node')?.points.at(-1);
  const { nodes } = job;
  return (
    <Section title={t('job.pods', { count: nodes.length })} tools={<Tally nodes={nodes} />}>
      {nodes.length === 0 && (
        <Text size="sm" c="dimmed">
          {t('job.noPods')}
        </Text>
      )}
      {nodes.length <= CARDS ? (
        <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="xs">
          {nodes.map((node) => (
            <NodeCard key={node.pod} job={job} node={node} used={used(node)} />
          ))}
        </SimpleGrid>
      ) : (
        <div className={classes.tiles}>
          {nodes.map((node) => (
            <Tooltip
              key={node.pod}
              label={`${nameOf(node, t)} · ${stateWord(node.state, t)}${node.message == null ? '' : ` · ${node.message}`}`}
            >
              <Link
                to={logsOf(job, node)}
                className={classes.tile}
                data-worker={node.worker}
                data-color={nodeColor(node.state)}
                aria-label={`${nameOf(node, t)}: ${stateWord(node.state, t)}`}
              >
                {node.role === 'node' ? node.worker : node.role.slice(0, 1)}
              </Link>
            </Tooltip>
          ))}
        </div>
      )}
    </Section>
  );
}

/** How many are in which state, worth a line where there are many. */
function Tally({ nodes }: { nodes: Node[] }) {
  const { t } = useTranslation();
  const states = [...new Set(nodes.map((node) => node.state))];
  if (nodes.length < 2) return null;
  return (
    <Group gap={6}>
      {states.map((state) => (
        <Badge key={state} size="sm" color={nodeColor(state)}>
          {t('job.tally', {
            count: nodes.filter((node) => node.state === state).length,
            state: stateWord(state, t),
          })}
        </Badge>
      ))}
    </Group>
  );
}

function NodeCard(props: { job: Schemas['JobDetail']; node: Node; used: Schemas['UsagePoint'] | undefined }) {
  const { t } = useTranslation();
  const { job, node, used } = props;
  return (
    <Card padding="xs" radius="sm" data-worker={node.worker}>
      <Group justify="space-between" gap={4} wrap="nowrap">
        <Anchor component={Link} to={logsOf(job, node)} size="sm" fw={600}>
          {nameOf(node, t)}
        </Anchor>
        <Badge size="sm" color={nodeColor(node.state)}>
          {stateWord(node.state, t)}
        </Badge>
      </Group>
      <Text size="xs" c="dimmed" truncate title={node.pod}>
        {node.pod}
      </Text>
      <Text size="xs" c="dimmed">
        {[node.machine, node.address, between(node.started_at, node.finished_at)].filter(Boolean).join(' · ')}
      </Text>
      {used !== undefined && node.state === 'Running' && (
        <>
          <Use label="CPU" used={used.cpu} of={job.per_node.cpu} text={cores} />
          <Use label={t('nodes.memory')} used={used.memory} of={job.per_node.memory} text={bytes} />
        </>
      )}
      {(node.exit_code != null || node.restarts > 0) && (
        <Text size="xs">
          {[
            node.exit_code != null && t('job.exit', { code: node.exit_code }),
            node.restarts > 0 && t('jobs.restarts', { count: node.restarts }),
          ]
            .filter(Boolean)
            .join(' · ')}
        </Text>
      )}
      {/* Why all of them wait is said once, at the top. */}
      {node.message != null &&
        node.state !== 'Succeeded' &&
        (node.state !== 'Pending' || job.waiting == null) && (
          <Text
            size="xs"
            c={node.state === 'Pending' ? 'dimmed' : 'red'}
            lineClamp={3}
            title={node.message}
            lang="en"
          >
            {node.message}
          </Text>
        )}
    </Card>
  );
}

function Use(props: { label: string; used: number; of: number; text: (value: number) => string }) {
  const { label, used, of, text } = props;
  const words = of > 0 ? `${text(used)} / ${text(of)}` : text(used);
  return (
    <div style={{ marginTop: 6 }}>
      <Group justify="space-between" gap={6} fz="xs" className="numbers">
        <Text span fz="inherit" c="dimmed">
          {label}
        </Text>
        {words}
      </Group>
      {of > 0 && (
        <Progress
          size={4}
          mt={2}
          value={Math.min(100, (used / of) * 100)}
          color={used / of > 0.9 ? 'orange.8' : 'indigo.7'}
          aria-label={`${label} ${words}`}
        />
      )}
    </div>
  );
}

type Translate = ReturnType<typeof useTranslation>['t'];

function nameOf(node: Node, t: Translate): string {
  return node.role === 'node'
    ? t('job.worker', { worker: node.worker })
    : node.role === 'launcher'
      ? t('submit.launcher')
      : node.role;
}

/** The words of Kubernetes for a pod's state; a reason such as CrashLoopBackOff stays as it is. */
function stateWord(state: string, t: Translate): string {
  switch (state) {
    case 'Pending':
    case 'Running':
    case 'Succeeded':
    case 'Failed':
      return t(`podState.${state}`);
    default:
      return state;
  }
}

function logsOf(job: Schemas['JobDetail'], node: Node): string {
  return `${ROUTES.job.path(job.namespace, job.name, 'logs')}?worker=${node.worker}`;
}

function nodeColor(state: string): string {
  if (state === 'Running') return 'blue';
  if (state === 'Succeeded') return 'green';
  return state === 'Pending' ? 'gray' : 'red';
}
