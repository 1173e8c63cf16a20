import {
  Badge,
  Button,
  Card,
  Group,
  NumberInput,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
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
          leftSection={<IconSearch size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
      </Group>
      {runtimes.error !== null && (
        <ErrorNote error={runtimes.error} onRetry={() => void runtimes.refetch()} />
      )}
      <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }}>
        {shown.map((runtime) => (
          <RuntimeCard key={runtime.name} runtime={runtime} editable={me.admin} />
        ))}
      </SimpleGrid>
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
    <Card withBorder data-runtime={runtime.name}>
      <Group justify="space-between" mb="xs" wrap="nowrap" align="flex-start">
        <Text fw={600} style={{ wordBreak: 'break-word' }}>
          {runtime.name}
        </Text>
        <Group gap={4} flex="none">
          {runtime.deprecated && (
            <Badge variant="light" color="orange" tt="none">
              {t('runtimes.deprecated')}
            </Badge>
          )}
          <Badge variant="light" tt="none">
            {runtime.framework ?? '–'}
          </Badge>
        </Group>
      </Group>
      <dl style={{ margin: 0, display: 'grid', gap: 6 }}>
        {facts.map(([label, value]) => (
          <div key={label}>
            <Text component="dt" size="xs" c="dimmed">
              {label}
            </Text>
            <Text component="dd" size="sm" m={0} style={{ wordBreak: 'break-word' }}>
              {value}
            </Text>
          </div>
        ))}
      </dl>
      {editable && <Restarts runtime={runtime} />}
      <Button
        mt="sm"
        size="xs"
        variant="light"
        component={Link}
        to={`${ROUTES.submit}?runtime=${encodeURIComponent(runtime.name)}`}
      >
        {t('runtimes.use')}
      </Button>
    </Card>
  );
}

function Restarts({ runtime }: { runtime: Schemas['Runtime'] }) {
  const { t } = useTranslation();
  const [restarts, setRestarts] = useState<number | string>(runtime.max_restarts ?? '');
  const save = useSetMaxRestarts();
  const changed = restarts !== '' && Number(restarts) !== runtime.max_restarts;
  return (
    <Group align="flex-end" mt="xs" gap="xs">
      <NumberInput
        size="xs"
        w={160}
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
