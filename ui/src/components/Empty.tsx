import { Stack, Text, ThemeIcon, Title } from '@mantine/core';
import { IconInbox, type TablerIcon } from '@tabler/icons-react';
import type { ReactNode } from 'react';

/** A place with nothing in it says what would be there and how to get it. */
export function Empty(props: {
  title: string;
  icon?: TablerIcon;
  /** 2 where it is the whole page. */
  order?: 2 | 3;
  children?: ReactNode;
  action?: ReactNode;
}) {
  const { title, icon: Icon = IconInbox, order = 3, children, action } = props;
  return (
    <Stack align="center" py={56} px="md" gap={6} className="table">
      <ThemeIcon size={44} radius="xl" variant="light" color="gray" mb={6} aria-hidden>
        <Icon size={22} stroke={1.5} />
      </ThemeIcon>
      <Title order={order} size="h4" ta="center" style={{ overflowWrap: 'anywhere' }}>
        {title}
      </Title>
      {children !== undefined && (
        <Text c="dimmed" size="sm" ta="center" maw={460}>
          {children}
        </Text>
      )}
      {action !== undefined && <div style={{ marginTop: 10 }}>{action}</div>}
    </Stack>
  );
}
