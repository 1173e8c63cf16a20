import { Group, Skeleton, Table, VisuallyHidden } from '@mantine/core';
import { IconTrash } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';

import { useConfirm } from '@/components/confirm';
import { ErrorNote } from '@/components/ErrorNote';
import { IconButton } from '@/components/IconButton';
import { Section } from '@/components/Section';

interface Props<T> {
  title: string;
  hint?: string;
  query: { data: T[] | undefined; error: Error | null; refetch: () => unknown };
  /** A name for each row, for tests and as its key. */
  nameOf: (row: T) => string;
  columns: [string, (row: T) => ReactNode][];
  /** What else can be done with a row. */
  tools?: (row: T) => ReactNode;
  remove: {
    /** What the button is called; nothing where the row cannot be removed. */
    label: (row: T) => string | undefined;
    question: (row: T) => { title: string; text: string; confirm: string };
    act: (row: T) => void;
    error: Error | null;
  };
  /** The form that adds one. */
  children: ReactNode;
}

/** Things of a kind that one adds and removes: tokens, users, webhooks. */
export function Records<T>({ title, hint, query, nameOf, columns, tools, remove, children }: Props<T>) {
  const { t } = useTranslation();
  const ask = useConfirm();
  const rows = query.data;
  return (
    <Section title={title} {...(hint !== undefined && { hint })}>
      {query.error !== null && <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {remove.error !== null && <ErrorNote error={remove.error} />}
      {rows === undefined && query.error === null && <Skeleton h={64} mb="md" />}
      {rows !== undefined && rows.length > 0 && (
        <Table.ScrollContainer minWidth={600} type="native" mb="md">
          <Table>
            <Table.Thead>
              <Table.Tr>
                {columns.map(([label]) => (
                  <Table.Th key={label}>{label}</Table.Th>
                ))}
                <Table.Th w={1}>
                  <VisuallyHidden>{t('settings.actions')}</VisuallyHidden>
                </Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {rows.map((row) => {
                const label = remove.label(row);
                return (
                  <Table.Tr key={nameOf(row)} data-record={nameOf(row)}>
                    {columns.map(([name, cell]) => (
                      <Table.Td key={name} style={{ overflowWrap: 'anywhere' }}>
                        {cell(row)}
                      </Table.Td>
                    ))}
                    <Table.Td>
                      <Group gap={2} wrap="nowrap" justify="flex-end">
                        {tools?.(row)}
                        {label !== undefined && (
                          <IconButton
                            label={label}
                            color="red"
                            onClick={() =>
                              ask({
                                ...remove.question(row),
                                danger: true,
                                onConfirm: () => remove.act(row),
                              })
                            }
                          >
                            <IconTrash size={16} stroke={1.5} />
                          </IconButton>
                        )}
                      </Group>
                    </Table.Td>
                  </Table.Tr>
                );
              })}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {children}
    </Section>
  );
}
