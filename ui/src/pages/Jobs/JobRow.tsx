import { Anchor, Badge, Checkbox, Table } from '@mantine/core';
import { memo } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate } from 'react-router';

import { Ago } from '@/components/Time';
import { useSize } from '@/libs/saying';
import { ROUTES } from '@/routes';

import { Duration, type Job, JobProgress, LastValue, NodeCount, StateLine, useOrigin } from './cells';
import type { Column } from './columns';
import classes from './Jobs.module.css';

interface Props {
  job: Job;
  read: number;
  /** The same array at every drawing. */
  columns: readonly Column[];
  selected: boolean;
  /** The same function at every drawing; without it nothing can be selected. */
  onSelect: ((jobs: Job[], on: boolean) => void) | undefined;
}

/** Redrawn only when the job itself has changed: a list is read again at every change of any job. */
export const JobRow = memo(function JobRow({ job, read, columns, selected, onSelect }: Props) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const originOf = useOrigin();
  const sizeOf = useSize();
  const to = ROUTES.job.path(job.namespace, job.name);
  const cells = {
    name: (
      <>
        <Anchor
          component={Link}
          to={to}
          fw={550}
          fz="sm"
          c="inherit"
          className={classes.name}
          title={job.name}
        >
          {job.name}
        </Anchor>
        <div className={classes.quiet}>{originOf(job)}</div>
        {job.tags !== undefined && job.tags.length > 0 && (
          <div className={classes.tags} title={job.tags.join(', ')}>
            {job.tags.map((tag) => (
              <Badge key={tag} size="xs" color="gray" className={classes.tag}>
                {tag}
              </Badge>
            ))}
          </div>
        )}
      </>
    ),
    state: <StateLine job={job} />,
    progress: <JobProgress job={job} />,
    headline: <LastValue job={job} />,
    nodes: <NodeCount job={job} />,
    resources: <div className={classes.cut}>{sizeOf(job.per_node)}</div>,
    user: (
      <div className={classes.cut} title={job.user ?? ''}>
        {job.user ?? '–'}
      </div>
    ),
    duration: (
      <span className="numbers" style={{ whiteSpace: 'nowrap' }}>
        <Duration job={job} read={read} />
      </span>
    ),
    created: <Ago time={job.created_at} />,
  };
  return (
    <Table.Tr
      data-job={job.name}
      data-selected={selected || undefined}
      className={classes.row}
      style={{ cursor: 'pointer' }}
      // The whole row leads to the job; its link is what keyboards and screen readers use.
      onClick={(event) => {
        const control = (event.target as HTMLElement).closest('a, button, input, label');
        if (control === null && window.getSelection()?.isCollapsed !== false) void navigate(to);
      }}
    >
      {onSelect !== undefined && (
        <Table.Td pr={0}>
          <Checkbox
            size="xs"
            disabled={job.archived ?? false}
            aria-label={t('jobs.select', { name: job.name })}
            checked={selected}
            onChange={(event) => onSelect([job], event.currentTarget.checked)}
          />
        </Table.Td>
      )}
      {columns.map((column) => (
        <Table.Td key={column}>{cells[column]}</Table.Td>
      ))}
    </Table.Tr>
  );
});
