import { Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** A place with nothing in it says what would be there and how to get it. */
export function Empty({
  title,
  children,
  action,
}: {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <Stack align="center" py={60} gap="xs">
      <Title order={3}>{title}</Title>
      {children !== undefined && (
        <Text c="dimmed" ta="center" maw={520}>
          {children}
        </Text>
      )}
      {action}
    </Stack>
  );
}
