import { Card, Group, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** A part of a page with its title, what it is for, and tools at its right. */
export function Section(props: { title: string; hint?: string; tools?: ReactNode; children: ReactNode }) {
  const { title, hint, tools, children } = props;
  return (
    <Card component="section" aria-label={title}>
      <Group justify="space-between" align="flex-start" mb="sm" gap="xs">
        <div>
          <Title order={3} size="h5">
            {title}
          </Title>
          {hint !== undefined && (
            <Text size="sm" c="dimmed">
              {hint}
            </Text>
          )}
        </div>
        {tools}
      </Group>
      {children}
    </Card>
  );
}
