import { Anchor, Badge, CloseButton, Group, Stack, Switch, Table, Text, Title } from '@mantine/core';
import { IconGitCompare } from '@tabler/icons-react';
import { useQueries } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useNavigate, useSearchParams } from 'react-router';

import { Empty } from '@/components/Empty';
import { Section } from '@/components/Section';
import { StateBadge } from '@/components/StateBadge';
import { useSize } from '@/libs/saying';
import { isFinished, shownState } from '@/libs/state';
import { duration } from '@/libs/time';
import { namesOf } from '@/pages/Jobs/Detail/charts';
import { Curves } from '@/pages/Jobs/Detail/Curves';
import { ROUTES } from '@/routes';
import { isMissing, type Schemas } from '@/services/client';
import { formOf, jobOf, type JobKey, useLiveJobs } from '@/services/jobs';

import classes from './Compare.module.css';
import { LABELS, resultsOf, type Row, rowsOf, settingsOf } from './settings';

/** Any number of jobs side by side: their curves in the same charts, and in what they differ. The address says which. */
export function Compare() {
  const { t } = useTranslation();
  const [search] = useSearchParams();
  const navigate = useNavigate();
  const asked = search.getAll('job').join(' ');
  const keys = useMemo(() => keysOf(asked.split(' ')), [asked]);
  useLiveJobs();
  const jobs = useQueries({ queries: keys.map((key) => jobOf(key)) });
  const forms = useQueries({ queries: keys.map((key) => formOf(key)) });
  const [onlyDifferent, setOnlyDifferent] = useState(false);

  const sizeOf = useSize();
  const words = { last: (name: string) => t('compare.last', { name }), size: t('job.perNode'), sizeOf };
  const results = rowsOf(
    jobs.map(({ data }) => {
      if (data === undefined) return undefined;
      const lines = resultsOf(data, words);
      lines.set(t('jobs.duration'), duration(data.duration_seconds * 1000));
      return lines;
    }),
  );
  const settings = rowsOf(forms.map(({ data }) => (data === undefined ? undefined : settingsOf(data))));
  const names = namesOf(keys);
  const without = (at: number) =>
    void navigate(ROUTES.compared(keys.filter((_, index) => index !== at)), { replace: true });

  return (
    <Stack>
      <Title order={2}>{t('compare.title')}</Title>
      {keys.length === 0 ? (
        <Empty title={t('compare.none')} icon={IconGitCompare}>
          {t('compare.noneHint')}
        </Empty>
      ) : (
        <>
          <Section
            title={t('compare.settings')}
            tools={
              <Switch
                size="xs"
                label={t('compare.onlyDifferent')}
                checked={onlyDifferent}
                onChange={(event) => setOnlyDifferent(event.currentTarget.checked)}
              />
            }
          >
            <Table.ScrollContainer minWidth={120 + 130 * keys.length} type="native">
              <Table verticalSpacing={4} className="numbers">
                <Table.Thead>
                  <Table.Tr>
                    <Table.Td className={classes.fixed} />
                    {keys.map((key, at) => (
                      <Column
                        key={`${key.namespace}/${key.name}`}
                        of={key}
                        called={names[at] ?? key.name}
                        job={jobs[at]?.data}
                        error={jobs[at]?.error ?? null}
                        onRemove={() => without(at)}
                      />
                    ))}
                  </Table.Tr>
                </Table.Thead>
                <Table.Tbody>
                  {[...results, ...settings]
                    .filter((row) => row.differs || !onlyDifferent)
                    .map((row) => (
                      <Line key={row.name} row={row} marked={row.differs && keys.length > 1} />
                    ))}
                </Table.Tbody>
              </Table>
            </Table.ScrollContainer>
            {keys.length > 1 && (
              <Text size="xs" c="dimmed" mt="xs">
                {t('compare.marked')}
              </Text>
            )}
          </Section>
          <Curves jobs={keys} live={jobs.some(({ data }) => data !== undefined && !isFinished(data.state))} />
        </>
      )}
    </Stack>
  );
}

/** The head of a job's column. */
function Column(props: {
  of: JobKey;
  called: string;
  job: Schemas['JobDetail'] | undefined;
  error: Error | null;
  onRemove: () => void;
}) {
  const { t } = useTranslation();
  const { namespace, name } = props.of;
  return (
    <Table.Th scope="col" style={{ whiteSpace: 'normal' }}>
      <Group gap={4} wrap="nowrap" align="center">
        <Anchor
          component={Link}
          to={ROUTES.job.path(namespace, name)}
          size="sm"
          style={{ overflowWrap: 'anywhere' }}
        >
          {props.called}
        </Anchor>
        <CloseButton
          size="xs"
          aria-label={t('compare.without', { name: props.called })}
          onClick={props.onRemove}
        />
      </Group>
      {props.job !== undefined && <StateBadge state={shownState(props.job)} />}
      {props.error !== null && (
        <Badge color={isMissing(props.error) ? 'gray' : 'red'}>
          {isMissing(props.error) ? t('compare.missing') : t('logs.stream.failed')}
        </Badge>
      )}
    </Table.Th>
  );
}

/** What stands in an address as `namespace/name`; each job once, and nothing that is none. */
function keysOf(asked: string[]): JobKey[] {
  return [...new Set(asked)].flatMap((one) => {
    const [namespace, name, ...more] = one.split('/');
    return namespace === undefined || namespace === '' || name === undefined || name === '' || more.length > 0
      ? []
      : [{ namespace, name }];
  });
}

function Line({ row, marked }: { row: Row; marked: boolean }) {
  const { t } = useTranslation();
  const words = LABELS[row.name as keyof typeof LABELS] ?? [];
  return (
    <Table.Tr
      data-setting={row.name}
      data-differs={marked || undefined}
      bg={marked ? 'var(--mantine-color-yellow-light)' : undefined}
    >
      <Table.Th scope="row" c="var(--mantine-color-text)" className={classes.fixed}>
        {words.map((key) => t(key)).join(' ') || row.name}
      </Table.Th>
      {row.values.map((value, at) => (
        <Table.Td key={at} style={{ overflowWrap: 'anywhere' }}>
          {value ?? '–'}
        </Table.Td>
      ))}
    </Table.Tr>
  );
}
