import {
  Alert,
  Button,
  Card,
  CopyButton,
  Group,
  SegmentedControl,
  Select,
  Stack,
  Table,
  Text,
  Title,
} from '@mantine/core';
import { IconCheck, IconClock, IconX } from '@tabler/icons-react';
import { lazy, Suspense, useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { ApiError, type Schemas } from '@/services/client';

import { documentsOf } from './documents';
import { commandOf, curlOf } from './form';

const CodeEditor = lazy(() =>
  import('@/components/CodeEditor').then((module) => ({ default: module.CodeEditor })),
);

interface Props {
  request: Schemas['CreateRequest'];
  preview: Schemas['Preview'] | undefined;
  error: Error | null;
  fit: Schemas['Fit'] | undefined;
  ready: boolean;
}

/** Beside the form, as one types: what will be made, where every line comes from, and whether it fits. */
export function PreviewPane({ request, preview, error, fit, ready }: Props) {
  const { t } = useTranslation();
  const [view, setView] = useState<'yaml' | 'origin'>('yaml');
  const copies = [
    { label: 'YAML', text: preview?.yaml ?? '' },
    { label: 'curl', text: curlOf(request, window.location.origin) },
    { label: 'astrago run', text: commandOf(request) },
  ];
  const invalid = error instanceof ApiError && error.fields.length > 0;
  return (
    <Card withBorder style={{ position: 'sticky', top: 72 }}>
      <Group justify="space-between" mb="sm">
        <Title order={3} size="h5">
          {t('preview.title')}
        </Title>
        <SegmentedControl
          size="xs"
          aria-label={t('preview.view')}
          data={[
            { value: 'yaml', label: 'YAML' },
            { value: 'origin', label: t('preview.origin') },
          ]}
          value={view}
          onChange={(value) => setView(value as 'yaml' | 'origin')}
        />
      </Group>
      <Stack gap="sm">
        {fit !== undefined && ready && !invalid && <FitNote fit={fit} />}
        {error !== null && ready && <ErrorNote error={error} />}
        {!ready && (
          <Text size="sm" c="dimmed">
            {t('preview.empty')}
          </Text>
        )}
        {ready && preview !== undefined && view === 'yaml' && <Documents preview={preview} />}
        {ready && preview !== undefined && view === 'origin' && <Origin provenance={preview.provenance} />}
        <Group gap="xs">
          {copies.map((copy) => (
            <CopyButton key={copy.label} value={copy.text}>
              {({ copied, copy: act }) => (
                <Button size="xs" variant="default" onClick={act} disabled={copy.text === ''}>
                  {copied ? t('action.copied') : t('action.copyAs', { what: copy.label })}
                </Button>
              )}
            </CopyButton>
          ))}
        </Group>
      </Stack>
    </Card>
  );
}

/** What will be made, one object at a time: the job first, then what it needs, then the pods that come of it. */
function Documents({ preview }: { preview: Schemas['Preview'] }) {
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
      <Suspense fallback={<div style={{ height: 400 }} />}>
        <CodeEditor
          value={shown?.text ?? preview.yaml}
          language="yaml"
          label={t('preview.title')}
          height="46vh"
        />
      </Suspense>
    </>
  );
}

function FitNote({ fit }: { fit: Schemas['Fit'] }) {
  const { t } = useTranslation();
  const look = {
    fits_now: { color: 'green', icon: <IconCheck size={16} /> },
    would_wait: { color: 'yellow', icon: <IconClock size={16} /> },
    never_fits: { color: 'red', icon: <IconX size={16} /> },
  }[fit.verdict];
  return (
    <Alert color={look.color} icon={look.icon} title={t(`fit.${fit.verdict}`)} p="xs" data-fit={fit.verdict}>
      <Text size="sm">{fit.reason}</Text>
    </Alert>
  );
}

function Origin({ provenance }: { provenance: Record<string, string> }) {
  const { t } = useTranslation();
  return (
    <div
      style={{ maxHeight: '52vh', overflow: 'auto' }}
      tabIndex={0}
      role="region"
      aria-label={t('preview.origin')}
    >
      <Table verticalSpacing={2} fz="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t('preview.field')}</Table.Th>
            <Table.Th>{t('preview.origin')}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {Object.entries(provenance).map(([path, origin]) => (
            <Table.Tr key={path}>
              <Table.Td style={{ wordBreak: 'break-all' }}>{path}</Table.Td>
              <Table.Td>{origin}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </div>
  );
}
