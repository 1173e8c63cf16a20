import { Checkbox, Skeleton, Table, Text, UnstyledButton } from '@mantine/core';
import { IconArrowDown, IconArrowUp } from '@tabler/icons-react';
import { Fragment } from 'react';
import { useTranslation } from 'react-i18next';

import { type Grouping, groupOf } from '@/libs/groups';
import type { Schemas } from '@/services/client';

import { isStill, type Job } from './cells';
import { type Column, useColumns, WIDTHS } from './columns';
import { JobRow } from './JobRow';
import classes from './Jobs.module.css';

export type Sort = 'newest' | 'oldest' | 'name' | 'state' | 'duration';

interface Props {
  /** Undefined until the first answer. */
  jobs: Job[] | undefined;
  /** When they were read, so that running times go on from there. */
  read: number;
  /** How they can be chosen; without it, they cannot. */
  choice?: { selected: ReadonlyMap<string, Job>; onSelect: (jobs: Job[], on: boolean) => void };
  order?: { sort: Sort; onSort: (sort: Sort) => void };
  /** What stands together, and how many of each there are. */
  grouping?: { by: Grouping; groups: Schemas['JobGroup'][] };
}

/** The jobs as a table. Its columns keep their width whatever arrives; on a narrow screen the less wanted ones give way. */
export function JobTable({ jobs, read, choice, order, grouping }: Props) {
  const columns = useColumns();
  const spanned = columns.length + (choice === undefined ? 0 : 1);
  return (
    <div className="table">
      <Table.ScrollContainer minWidth={700} type="native">
        <Table layout="fixed" highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              {choice !== undefined && <SelectAll jobs={jobs ?? []} {...choice} />}
              {columns.map((column) => (
                <Heading key={column} column={column} order={order} />
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {jobs === undefined
              ? Array.from({ length: 6 }, (_, index) => <Placeholder key={index} columns={spanned} />)
              : jobs.map((job, index) => (
                  <Fragment key={job.uid}>
                    {grouping !== undefined && (
                      <GroupRow job={job} before={jobs[index - 1]} columns={spanned} grouping={grouping} />
                    )}
                    <JobRow
                      job={job}
                      read={isStill(job) ? 0 : read}
                      columns={columns}
                      selected={choice?.selected.has(job.uid) ?? false}
                      onSelect={choice?.onSelect}
                    />
                  </Fragment>
                ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </div>
  );
}

function SelectAll({ jobs, selected, onSelect }: { jobs: Job[] } & NonNullable<Props['choice']>) {
  const { t } = useTranslation();
  const all = jobs.filter((job) => !job.archived);
  const chosen = all.filter((job) => selected.has(job.uid)).length;
  return (
    <Table.Th w={40} pr={0}>
      <Checkbox
        size="xs"
        aria-label={t('jobs.selectAll')}
        checked={chosen > 0 && chosen === all.length}
        indeterminate={chosen > 0 && chosen < all.length}
        disabled={all.length === 0}
        onChange={(event) => onSelect(all, event.currentTarget.checked)}
      />
    </Table.Th>
  );
}

/** The name of a group above its first job. */
function GroupRow(props: {
  job: Job;
  before: Job | undefined;
  columns: number;
  grouping: NonNullable<Props['grouping']>;
}) {
  const { job, before, columns, grouping } = props;
  const { t } = useTranslation();
  const value = groupOf(grouping.by, job);
  if (before !== undefined && groupOf(grouping.by, before) === value) return null;
  const count = grouping.groups.find((group) => group.value === value)?.jobs;
  const name = grouping.by === 'state' ? t(`state.${job.state}`) : value || t(`jobs.without.${grouping.by}`);
  return (
    <Table.Tr className={classes.group} data-group={value}>
      <Table.Th colSpan={columns} scope="rowgroup">
        {name}{' '}
        {count !== undefined && (
          <Text span size="xs" c="dimmed" className="numbers">
            {count}
          </Text>
        )}
      </Table.Th>
    </Table.Tr>
  );
}

function Placeholder({ columns }: { columns: number }) {
  return (
    <Table.Tr h={57}>
      {Array.from({ length: columns }, (_, index) => (
        <Table.Td key={index}>{index > 0 && <Skeleton h={12} w={`${90 - ((index * 17) % 50)}%`} />}</Table.Td>
      ))}
    </Table.Tr>
  );
}

const SORTED: Partial<Record<Column, 'newest' | 'name' | 'state' | 'duration'>> = {
  name: 'name',
  state: 'state',
  duration: 'duration',
  created: 'newest',
};

/** A heading that sorts by its column, where that can be; the one of the time turns around when it is pressed again. */
function Heading({ column, order }: { column: Column; order: Props['order'] }) {
  const { t } = useTranslation();
  const by = SORTED[column];
  const label = t(`jobs.${column}`);
  if (by === undefined || order === undefined) return <Table.Th w={WIDTHS[column]}>{label}</Table.Th>;
  const { sort, onSort } = order;
  const direction =
    sort === by
      ? by === 'newest'
        ? 'descending'
        : 'ascending'
      : sort === 'oldest' && by === 'newest'
        ? 'ascending'
        : 'none';
  return (
    <Table.Th aria-sort={direction} w={WIDTHS[column]}>
      <UnstyledButton
        className={classes.sort}
        onClick={() => onSort(by === 'newest' && sort === 'newest' ? 'oldest' : by)}
      >
        {label}
        {direction === 'ascending' && <IconArrowUp size={12} />}
        {direction === 'descending' && <IconArrowDown size={12} />}
      </UnstyledButton>
    </Table.Th>
  );
}
