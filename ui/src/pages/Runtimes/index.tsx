import { Badge, Button, Card, Group, NumberInput, SimpleGrid, Stack, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { duration } from '@/libs/time';
import type { Schemas } from '@/services/client';
import { useRuntimes, useSetMaxRestarts } from '@/services/places';

/** The catalogue: what each runtime runs, and how often it restarts a job. */
export function Runtimes({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const runtimes = useRuntimes();
  return (
    <Stack>
      <Title order={2}>{t('nav.runtimes')}</Title>
      {runtimes.error !== null && (
        <ErrorNote error={runtimes.error} onRetry={() => void runtimes.refetch()} />
      )}
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        {(runtimes.data ?? []).map((runtime) => (
          <RuntimeCard key={runtime.name} runtime={runtime} editable={me.admin} />
        ))}
      </SimpleGrid>
    </Stack>
  );
}

function RuntimeCard({ runtime, editable }: { runtime: Schemas['Runtime']; editable: boolean }) {
  const { t } = useTranslation();
  const [restarts, setRestarts] = useState<number | string>(runtime.max_restarts ?? '');
  const save = useSetMaxRestarts();
  const changed = restarts !== '' && Number(restarts) !== runtime.max_restarts;
  return (
    <Card withBorder data-runtime={runtime.name}>
      <Group justify="space-between" mb="xs" wrap="nowrap" align="flex-start">
        <Text fw={600} style={{ wordBreak: 'break-word' }}>
          {runtime.name}
        </Text>
        <Badge variant="light" tt="none" flex="none">
          {runtime.framework ?? '–'}
        </Badge>
      </Group>
      <Text size="xs" c="dimmed" style={{ wordBreak: 'break-all' }}>
        {runtime.image ?? '–'}
      </Text>
      <Text size="sm" mt="xs">
        {t('runtimes.nodes', { count: runtime.num_nodes })} · {runtime.jobs.join(' → ')}
      </Text>
      {runtime.ttl_seconds != null && (
        <Text size="sm">{t('runtimes.ttl', { time: duration(runtime.ttl_seconds * 1000) })}</Text>
      )}
      {editable ? (
        <Group align="flex-end" mt="xs" gap="xs">
          <NumberInput
            size="xs"
            w={140}
            label={t('runtimes.maxRestarts')}
            aria-label={`${t('runtimes.maxRestarts')} ${runtime.name}`}
            placeholder={t('runtimes.byDefault')}
            min={0}
            max={1000}
            value={restarts}
            onChange={setRestarts}
          />
          {changed && (
            <Button
              size="xs"
              loading={save.isPending}
              onClick={() =>
                save.mutate(
                  { name: runtime.name, maxRestarts: Number(restarts) },
                  { onError: (error) => notifications.show({ color: 'red', message: error.message }) },
                )
              }
            >
              {t('action.save')}
            </Button>
          )}
        </Group>
      ) : (
        <Text size="sm">
          {t('runtimes.maxRestarts')}: {runtime.max_restarts ?? t('runtimes.byDefault')}
        </Text>
      )}
    </Card>
  );
}
