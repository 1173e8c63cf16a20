import {
  Button,
  FileButton,
  Group,
  NumberInput,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  TagsInput,
  Text,
  Textarea,
  TextInput,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { notifications } from '@mantine/notifications';
import { IconUpload } from '@tabler/icons-react';
import { type DragEvent, lazy, Suspense, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Section } from '@/components/Section';
import { runtimeOf } from '@/libs/frameworks';
import { useRuntimes, useSecrets } from '@/services/places';

import { FolderSource } from './FolderSource';
import type { CodeSource, Form } from './form';
import classes from './Submit.module.css';

const CodeEditor = lazy(() =>
  import('@/components/CodeEditor').then((module) => ({ default: module.CodeEditor })),
);

type Props = { form: UseFormReturnType<Form> };

const SOURCES: CodeSource[] = ['editor', 'folder', 'git', 'image'];

/** The training code: typed, a file or a folder, from a git repository or in the image; and how it is started. */
export function CodeSection({ form }: Props) {
  const { t } = useTranslation();
  const source = form.values.codeSource;
  const runtime = runtimeOf(form.values, useRuntimes().data);
  return (
    <Section
      title={t('submit.code')}
      tools={
        <SegmentedControl
          size="xs"
          aria-label={t('submit.codeSource')}
          data={SOURCES.map((value) => ({ value, label: t(`submit.${value}Source`) }))}
          {...form.getInputProps('codeSource')}
        />
      }
    >
      <Stack>
        {source === 'editor' && <Editor form={form} />}
        {source === 'folder' && <FolderSource form={form} />}
        {source === 'git' && <Repository form={form} />}
        {source === 'image' && (
          <Text size="sm" c="dimmed">
            {t('submit.imageSourceHint')}
          </Text>
        )}
        <Textarea
          label={t('submit.command')}
          description={source === 'image' ? t('submit.commandNeeded') : t('submit.commandHint')}
          placeholder="python3 /workspace/scripts/train.py"
          autosize
          minRows={1}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          {...form.getInputProps('command')}
        />
        {form.values.command === '' && (
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TagsInput
              label={t('submit.arguments')}
              description={t('submit.argumentsHint')}
              splitChars={[]}
              allowDuplicates
              {...form.getInputProps('arguments')}
            />
            {runtime?.torchrun === true && (
              <NumberInput
                label={t('submit.processes')}
                description={t('submit.processesHint')}
                min={1}
                max={256}
                allowDecimal={false}
                {...form.getInputProps('nproc_per_node')}
              />
            )}
          </SimpleGrid>
        )}
      </Stack>
    </Section>
  );
}

function Editor({ form }: Props) {
  const { t } = useTranslation();
  const [over, setOver] = useState(false);
  const load = (file: File | null) =>
    void file?.text().then((text) => {
      form.setFieldValue('training_code', text);
      notifications.show({ message: t('submit.dropped', { name: file.name }) });
    });
  // The editor would take the text of a dropped file where the pointer is; here it becomes the whole code.
  const drop = (event: DragEvent) => {
    setOver(false);
    if (event.dataTransfer.files.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    load(event.dataTransfer.files[0] ?? null);
  };
  return (
    <div
      data-drop
      data-over={over || undefined}
      className={classes.drop}
      onDropCapture={drop}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
    >
      <Group justify="space-between" mb={4}>
        <Text size="sm" fw={500}>
          {over ? t('submit.dropHere') : 'train.py'}
        </Text>
        <FileButton onChange={load} accept=".py,text/x-python">
          {(props) => (
            <Button size="compact-xs" variant="subtle" leftSection={<IconUpload size={14} />} {...props}>
              {t('submit.upload')}
            </Button>
          )}
        </FileButton>
      </Group>
      <Suspense fallback={<div style={{ height: 300 }} />}>
        <CodeEditor
          value={form.values.training_code}
          onChange={(code) => form.setFieldValue('training_code', code)}
          language="python"
          label="train.py"
          placeholder={t('submit.codePlaceholder')}
          height="300px"
        />
      </Suspense>
      {form.errors['training_code'] !== undefined && (
        <Text size="xs" c="red" role="alert">
          {form.errors['training_code']}
        </Text>
      )}
    </div>
  );
}

function Repository({ form }: Props) {
  const { t } = useTranslation();
  const secrets = useSecrets(form.values.namespace);
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <TextInput
        label={t('submit.repository')}
        placeholder="https://…/project.git"
        {...form.getInputProps('git_repository')}
      />
      <TextInput label={t('submit.branch')} placeholder="main" {...form.getInputProps('git_branch')} />
      <Select
        label={t('submit.secret')}
        description={t('submit.secretHint')}
        placeholder={t('submit.secretNone')}
        data={[...new Set([...(secrets.data ?? []).map((one) => one.name), form.values.git_secret])].filter(
          Boolean,
        )}
        clearable
        searchable
        value={form.values.git_secret === '' ? null : form.values.git_secret}
        error={form.errors['git_secret']}
        onChange={(value) => form.setFieldValue('git_secret', value ?? '')}
      />
    </SimpleGrid>
  );
}
