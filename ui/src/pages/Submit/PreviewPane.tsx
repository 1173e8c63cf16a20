import {
  Alert,
  Button,
  CopyButton,
  Group,
  Progress,
  SegmentedControl,
  Select,
  Skeleton,
  Stack,
  Text,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import {
  IconCheck,
  IconChevronDown,
  IconChevronRight,
  IconClock,
  IconCopy,
  IconX,
} from '@tabler/icons-react';
import { lazy, Suspense, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { PodsPreview } from '@/components/PodsPreview';
import { Section } from '@/components/Section';
import { amounts, bytes, cores } from '@/libs/amounts';
import { duration } from '@/libs/time';
import { asSentence, useSaying } from '@/libs/saying';
import { runtimeOf } from '@/libs/frameworks';
import { ApiError, type Schemas } from '@/services/client';
import { useRuntimes } from '@/services/places';

import { documentsOf } from './documents';
import { commandOf, curlOf, type Form } from './form';
import classes from './Submit.module.css';

const CodeEditor = lazy(() =>
  import('@/components/CodeEditor').then((module) => ({ default: module.CodeEditor })),
);

interface Props {
  form: Form;
  request: Schemas['CreateRequest'];
  preview: Schemas['Preview'] | undefined;
  error: Error | null;
  fit: Schemas['Fit'] | undefined;
}

/** Beside the form, as one types: what is asked for in plain words and whether it fits; whoever wants opens the YAML of it. */
export function PreviewPane({ form, request, preview, error, fit }: Props) {
  const { t } = useTranslation();
  const [opened, { toggle }] = useDisclosure();
  const [view, setView] = useState<'objects' | 'pods'>('objects');
  const copies = [
    { label: 'YAML', text: preview?.yaml ?? '' },
    { label: 'curl', text: curlOf(request, window.location.origin) },
    { label: 'astrago run', text: commandOf(request) },
  ];
  const invalid = error instanceof ApiError && error.fields.length > 0;
  return (
    <div className={classes.pane}>
      <Section title={t('preview.title')}>
        <Stack gap="sm">
          <Text data-summary>{useSummary(form)}</Text>
          {fit !== undefined && !invalid && <FitNote fit={fit} />}
          {error !== null && <ErrorNote error={error} />}
          <Group gap="xs" justify="space-between">
            <Button
              size="compact-sm"
              variant="subtle"
              px={4}
              aria-expanded={opened}
              leftSection={opened ? <IconChevronDown size={15} /> : <IconChevronRight size={15} />}
              onClick={toggle}
            >
              {t('preview.show')}
            </Button>
            <Group gap="xs">
              <Text size="xs" c="dimmed">
                {t('preview.copy')}
              </Text>
              {copies.map((copy) => (
                <CopyButton key={copy.label} value={copy.text}>
                  {({ copied, copy: act }) => (
                    <Button
                      size="compact-sm"
                      variant="default"
                      leftSection={copied ? <IconCheck size={13} /> : <IconCopy size={13} stroke={1.5} />}
                      aria-label={t('action.copyAs', { what: copy.label })}
                      onClick={act}
                      disabled={copy.text === ''}
                    >
                      {copied ? t('action.copied') : copy.label}
                    </Button>
                  )}
                </CopyButton>
              ))}
            </Group>
          </Group>
          {opened && (
            <>
              <SegmentedControl
                size="xs"
                aria-label={t('preview.view')}
                data={[
                  { value: 'objects', label: t('preview.objects') },
                  { value: 'pods', label: t('preview.pods') },
                ]}
                value={view}
                onChange={(value) => setView(value as 'objects' | 'pods')}
              />
              {preview === undefined && error === null && <Skeleton h="42vh" />}
              {preview !== undefined && view === 'objects' && <Objects preview={preview} />}
              {preview !== undefined && view === 'pods' && <PodsPreview preview={preview} height="42vh" />}
            </>
          )}
        </Stack>
      </Section>
    </div>
  );
}

/** What is asked for, in one sentence: `2 × PyTorch, 1 CPU · 1 GiB each`. */
function useSummary(form: Form): string {
  const { t } = useTranslation();
  const runtime = runtimeOf(form, useRuntimes().data);
  const size = { cpu: form.cpu_request, memory: form.memory_request * 2 ** 30, gpu: form.gpu_count };
  const words = {
    framework: runtime?.title ?? form.framework,
    size: amounts(size),
    count: form.multiNode ? form.num_nodes : 1,
  };
  return [
    t('preview.summary', words),
    runtime?.launcher === true && t('preview.withLauncher'),
    form.checkpoint && t('preview.withCheckpoints'),
  ]
    .filter(Boolean)
    .join(' ');
}

/** What the request makes, one object at a time. */
function Objects({ preview }: { preview: Schemas['Preview'] }) {
  const { t } = useTranslation();
  const [wanted, setWanted] = useState('TrainJob');
  const documents = useMemo(() => documentsOf(preview.yaml), [preview.yaml]);
  const shown = documents.find((one) => one.kind === wanted);
  return (
    <>
      <Select
        size="xs"
        aria-label={t('preview.object')}
        data={[
          { value: 'all', label: t('preview.all') },
          ...documents.map((one) => ({ value: one.kind, label: one.kind })),
        ]}
        value={shown?.kind ?? 'all'}
        onChange={(value) => setWanted(value ?? 'all')}
        allowDeselect={false}
      />
      <Yaml text={shown?.text ?? preview.yaml} />
    </>
  );
}

function Yaml({ text }: { text: string }) {
  const { t } = useTranslation();
  return (
    <Suspense fallback={<div style={{ height: '42vh' }} />}>
      <CodeEditor value={text} language="yaml" label={t('job.manifest')} height="42vh" />
    </Suspense>
  );
}

/** Whether it fits: now, later or never; why; and how much of what there is it would take. */
function FitNote({ fit }: { fit: Schemas['Fit'] }) {
  const { t } = useTranslation();
  const say = useSaying();
  const look = {
    fits_now: { color: 'green', icon: <IconCheck size={16} /> },
    would_wait: { color: 'yellow', icon: <IconClock size={16} /> },
    never_fits: { color: 'red', icon: <IconX size={16} /> },
  }[fit.verdict];
  return (
    <Alert
      color={look.color}
      icon={look.icon}
      title={t(`fit.${fit.verdict}`)}
      p="xs"
      role="status"
      data-fit={fit.verdict}
    >
      <Text size="sm">
        {asSentence(say(fit))}
        {fit.wait_seconds != null && ` ${t('fit.estimate', { time: duration(fit.wait_seconds * 1000) })}`}
      </Text>
      <Stack gap={4} mt={6}>
        <Need label="CPU" needs={fit.needs.cpu} free={fit.free.cpu} total={fit.total.cpu} text={cores} />
        <Need
          label={t('nodes.memory')}
          needs={fit.needs.memory}
          free={fit.free.memory}
          total={fit.total.memory}
          text={bytes}
        />
        {(fit.needs.gpu > 0 || fit.total.gpu > 0) && (
          <Need label="GPU" needs={fit.needs.gpu} free={fit.free.gpu} total={fit.total.gpu} text={String} />
        )}
      </Stack>
    </Alert>
  );
}

function Need(props: {
  label: string;
  needs: number;
  free: number;
  total: number;
  text: (value: number) => string;
}) {
  const { t } = useTranslation();
  const { label, needs, free, total, text } = props;
  const used = total - free;
  const part = (value: number) => (total === 0 ? 0 : (Math.max(0, value) / total) * 100);
  const words = t('fit.numbers', { needs: text(needs), free: text(free), total: text(total) });
  return (
    <div>
      <Text size="xs">
        {label}: {words}
      </Text>
      <Progress.Root size="sm" aria-label={`${label}: ${words}`} role="img">
        <Progress.Section value={part(used)} color="gray.6" aria-label={t('fit.used')} />
        <Progress.Section
          value={Math.min(part(needs), 100 - part(used))}
          color={needs > free ? 'red.7' : 'teal.7'}
          aria-label={t('fit.needed')}
        />
      </Progress.Root>
    </div>
  );
}
