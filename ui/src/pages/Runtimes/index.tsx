import {
  Anchor,
  Badge,
  Button,
  Card,
  Group,
  SimpleGrid,
  Skeleton,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { Keys } from '@/components/Keys';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useRuntimes } from '@/services/places';

import { useDescription } from './words';

/** The catalogue: what each runtime is for. */
export function Runtimes() {
  const { t } = useTranslation();
  const runtimes = useRuntimes();
  const describe = useDescription();
  const [text, setText] = useState('');
  const wanted = text.toLowerCase();
  const shown = (runtimes.data ?? []).filter((runtime) =>
    `${runtime.name} ${runtime.title} ${runtime.image ?? ''} ${describe(runtime)}`
      .toLowerCase()
      .includes(wanted),
  );
  return (
    <Stack>
      <Group justify="space-between">
        <Title order={2}>{t('nav.runtimes')}</Title>
        <TextInput
          data-search
          aria-label={t('runtimes.search')}
          placeholder={t('runtimes.search')}
          w={{ base: '100%', xs: 280 }}
          leftSection={<IconSearch size={15} />}
          rightSection={<Keys of="/" />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      </Group>
      {runtimes.error !== null && (
        <ErrorNote error={runtimes.error} onRetry={() => void runtimes.refetch()} />
      )}
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        {runtimes.data === undefined &&
          runtimes.error === null &&
          Array.from({ length: 6 }, (_, index) => <Skeleton key={index} h={170} />)}
        {shown.map((runtime) => (
          <RuntimeCard key={runtime.name} runtime={runtime} description={describe(runtime)} />
        ))}
      </SimpleGrid>
      {runtimes.data !== undefined && shown.length === 0 && <Empty title={t('runtimes.none')} />}
    </Stack>
  );
}

function RuntimeCard({ runtime, description }: { runtime: Schemas['Runtime']; description: string }) {
  const { t } = useTranslation();
  return (
    <Card data-runtime={runtime.name}>
      <Group justify="space-between" mb={6} wrap="nowrap" align="flex-start">
        <Anchor
          component={Link}
          to={ROUTES.runtime.path(runtime.name)}
          fw={600}
          c="inherit"
          style={{ overflowWrap: 'anywhere' }}
        >
          {runtime.name}
        </Anchor>
        <Group gap={4} flex="none">
          {runtime.deprecated && <Badge color="orange">{t('runtimes.deprecated')}</Badge>}
          <Badge>{runtime.title}</Badge>
        </Group>
      </Group>
      <Text size="sm">{description}</Text>
      {runtime.image != null && (
        <Text size="xs" c="dimmed" mt={6} style={{ overflowWrap: 'anywhere' }}>
          {runtime.image}
        </Text>
      )}
      <Group justify="flex-end" mt="auto" pt="md">
        <Button
          size="xs"
          variant="default"
          component={Link}
          to={`${ROUTES.submit}?runtime=${encodeURIComponent(runtime.name)}`}
          aria-label={t('runtimes.use', { name: runtime.name })}
          leftSection={<IconPlus size={14} />}
        >
          {t('nav.submit')}
        </Button>
      </Group>
    </Card>
  );
}
