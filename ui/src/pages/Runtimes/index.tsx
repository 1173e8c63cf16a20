import {
  Badge,
  Button,
  Card,
  Group,
  NumberInput,
  SimpleGrid,
  Skeleton,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { Facts } from '@/components/Facts';
import { Keys } from '@/components/Keys';
import { duration } from '@/libs/time';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useRuntimes, useSetMaxRestarts } from '@/services/places';

/** The catalogue: what each runtime runs, in what steps, and how often it restarts a job. */
export function Runtimes({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const runtimes = useRuntimes();
  const [text, setText] = useState('');
  const wanted = text.toLowerCase();
  const shown = (runtimes.data ?? []).filter((runtime) =>
    `${runtime.name} ${runtime.framework ?? ''} ${runtime.image ?? ''}`.toLowerCase().includes(wanted),
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
          Array.from({ length: 6 }, (_, index) => <Skeleton key={index} h={220} />)}
        {shown.map((runtime) => (
          <RuntimeCard key={runtime.name} runtime={runtime} editable={me.admin} />
        ))}
      </SimpleGrid>
      {runtimes.data !== undefined && shown.length === 0 && <Empty title={t('runtimes.none')} />}
    </Stack>
  );
}

function RuntimeCard({ runtime, editable }: { runtime: Schemas['Runtime']; editable: boolean }) {
  const { t } = useTranslation();
  const facts: [string, string][] = [
    [t('job.image'), runtime.image ?? '–'],
    [t('runtimes.steps'), runtime.jobs.join(' → ')],
    [t('runtimes.nodes'), String(runtime.num_nodes)],
    [
      t('runtimes.ttl'),
      runtime.ttl_seconds == null
        ? t('runtimes.kept')
        : t('runtimes.after', { time: duration(runtime.ttl_seconds * 1000) }),
    ],
    ...(editable
      ? []
      : [
          [t('runtimes.maxRestarts'), String(runtime.max_restarts ?? t('runtimes.byDefault'))] as [
            string,
            string,
          ],
        ]),
  ];
  return (
    <Card data-runtime={runtime.name}>
      <Group justify="space-between" mb="sm" wrap="nowrap" align="flex-start">
        <Text fw={600} style={{ overflowWrap: 'anywhere' }}>
          {runtime.name}
        </Text>
        <Group gap={4} flex="none">
          {runtime.deprecated && <Badge color="orange">{t('runtimes.deprecated')}</Badge>}
          <Badge>{runtime.framework ?? '–'}</Badge>
        </Group>
      </Group>
      <Facts facts={facts} />
      <Group justify="space-between" align="flex-end" mt="auto" pt="md" wrap="nowrap">
        {editable ? <Restarts runtime={runtime} /> : <span />}
        <Button
          size="xs"
          variant="default"
          component={Link}
          to={`${ROUTES.submit}?runtime=${encodeURIComponent(runtime.name)}`}
          leftSection={<IconPlus size={14} />}
        >
          {t('runtimes.use')}
        </Button>
      </Group>
    </Card>
  );
}

function Restarts({ runtime }: { runtime: Schemas['Runtime'] }) {
  const { t } = useTranslation();
  const [restarts, setRestarts] = useState<number | string>(runtime.max_restarts ?? '');
  const save = useSetMaxRestarts();
  const changed = restarts !== '' && Number(restarts) !== runtime.max_restarts;
  return (
    <Group align="flex-end" gap="xs" wrap="nowrap">
      <NumberInput
        size="xs"
        w={128}
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
              {
                onSuccess: () => notifications.show({ message: t('runtimes.saved', { name: runtime.name }) }),
                onError: (error) => notifications.show({ color: 'red', message: error.message }),
              },
            )
          }
        >
          {t('action.save')}
        </Button>
      )}
    </Group>
  );
}
