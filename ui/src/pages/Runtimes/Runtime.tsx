import { Anchor, Badge, Button, Grid, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link, useParams } from 'react-router';

import { CodeEditor } from '@/components/CodeEditor';
import { CopyText } from '@/components/CopyText';
import { Crumbs } from '@/components/Crumbs';
import { ErrorNote } from '@/components/ErrorNote';
import { Facts } from '@/components/Facts';
import { NotFound } from '@/components/NotFound';
import { Section } from '@/components/Section';
import { StateBadge } from '@/components/StateBadge';
import { Ago } from '@/components/Time';
import { shownState } from '@/libs/state';
import { ROUTES } from '@/routes';
import { isMissing, type Schemas } from '@/services/client';
import { useJobs, useLiveJobs } from '@/services/jobs';
import { useRuntimeManifest, useRuntimes } from '@/services/places';

import { MakeCopy } from './MakeCopy';
import { Restarts } from './Restarts';
import { useDescription, useFacts } from './words';

/** One runtime: what it is for, how it is written, and who uses it. */
export function RuntimePage({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const { name = '' } = useParams();
  const runtimes = useRuntimes();
  const manifest = useRuntimeManifest(name);
  const describe = useDescription();
  const runtime = runtimes.data?.find((one) => one.name === name);
  useLiveJobs();
  if (isMissing(manifest.error)) return <NotFound what="runtime" name={name} />;
  return (
    <Stack>
      <div>
        <Crumbs steps={[[t('nav.runtimes'), ROUTES.runtimes]]} />
        <Group justify="space-between" mih={34}>
          <Group gap="xs">
            <Title order={2} style={{ overflowWrap: 'anywhere' }}>
              {name}
            </Title>
            {runtime !== undefined && <Badge>{runtime.title}</Badge>}
            {runtime?.deprecated === true && <Badge color="orange">{t('runtimes.deprecated')}</Badge>}
          </Group>
          <Group gap={6}>
            {me.admin && <MakeCopy of={name} />}
            <Button
              size="xs"
              component={Link}
              to={`${ROUTES.submit}?runtime=${encodeURIComponent(name)}`}
              leftSection={<IconPlus size={14} />}
            >
              {t('nav.submit')}
            </Button>
          </Group>
        </Group>
        {runtime !== undefined && (
          <Text size="sm" c="dimmed" maw={760} mt={6}>
            {describe(runtime)}
          </Text>
        )}
      </div>
      {runtimes.error !== null && (
        <ErrorNote error={runtimes.error} onRetry={() => void runtimes.refetch()} />
      )}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, md: 5 }}>
          <Stack>
            {runtime === undefined ? <Skeleton h={220} /> : <About runtime={runtime} editable={me.admin} />}
            <UsedBy runtime={name} />
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 7 }}>
          <Section
            title={t('job.manifest')}
            tools={manifest.data !== undefined && <CopyText text={manifest.data} />}
          >
            {manifest.error !== null && (
              <ErrorNote error={manifest.error} onRetry={() => void manifest.refetch()} />
            )}
            {manifest.data === undefined && manifest.error === null && <Skeleton h={400} />}
            {manifest.data !== undefined && (
              <CodeEditor value={manifest.data} language="yaml" label={t('job.manifest')} height="60vh" />
            )}
          </Section>
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function About({ runtime, editable }: { runtime: Schemas['Runtime']; editable: boolean }) {
  const { t } = useTranslation();
  const facts = useFacts();
  return (
    <Section title={t('job.details')}>
      <Facts
        facts={[
          ...facts(runtime),
          [
            t('runtimes.maxRestarts'),
            editable ? (
              <Restarts key={runtime.max_restarts} runtime={runtime} />
            ) : (
              String(runtime.max_restarts ?? t('runtimes.byDefault'))
            ),
          ],
        ]}
      />
    </Section>
  );
}

/** The newest jobs that use it, as far as one may see them. */
function UsedBy({ runtime }: { runtime: string }) {
  const { t } = useTranslation();
  const jobs = useJobs({ runtime, limit: 10 });
  const { items = [], total = 0 } = jobs.data ?? {};
  return (
    <Section
      title={t('runtimes.usedBy')}
      tools={
        total > 0 && (
          <Anchor component={Link} size="sm" to={`${ROUTES.jobs}?runtime=${encodeURIComponent(runtime)}`}>
            {t('jobs.total', { count: total, total })}
          </Anchor>
        )
      }
    >
      {jobs.error !== null && <ErrorNote error={jobs.error} onRetry={() => void jobs.refetch()} />}
      {jobs.data !== undefined && items.length === 0 && (
        <Text size="sm" c="dimmed">
          {t('runtimes.unused')}
        </Text>
      )}
      <Stack gap={6}>
        {items.map((job) => (
          <Group key={job.uid} gap="xs" wrap="nowrap" justify="space-between" data-uses={job.name}>
            <Anchor component={Link} to={ROUTES.job.path(job.namespace, job.name)} size="sm" truncate>
              {job.name}
            </Anchor>
            <Group gap="xs" wrap="nowrap" flex="none" fz="xs" c="dimmed">
              {job.user} <Ago time={job.created_at} /> <StateBadge state={shownState(job)} />
            </Group>
          </Group>
        ))}
      </Stack>
    </Section>
  );
}
