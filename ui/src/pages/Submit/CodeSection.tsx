import {
  Card,
  FileButton,
  Button,
  Group,
  SegmentedControl,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
  Textarea,
  Title,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { notifications } from '@mantine/notifications';
import { IconUpload } from '@tabler/icons-react';
import { type DragEvent, lazy, Suspense, useState } from 'react';
import { useTranslation } from 'react-i18next';

import type { Form } from './form';

const CodeEditor = lazy(() =>
  import('@/components/CodeEditor').then((module) => ({ default: module.CodeEditor })),
);

/** The training code: typed, dropped as a file, or from a git repository; and how it is started. */
export function CodeSection({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const [over, setOver] = useState(false);
  const load = (file: File | null) =>
    void file?.text().then((text) => {
      form.setFieldValue('code', text);
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
    <Card withBorder>
      <Group justify="space-between" mb="sm">
        <Title order={3} size="h5">
          {t('submit.code')}
        </Title>
        <SegmentedControl
          size="xs"
          aria-label={t('submit.codeSource')}
          data={[
            { value: 'editor', label: t('submit.editor') },
            { value: 'git', label: t('submit.git') },
          ]}
          {...form.getInputProps('codeSource')}
        />
      </Group>
      <Stack>
        {form.values.codeSource === 'editor' ? (
          <div
            data-drop
            onDropCapture={drop}
            onDragOver={(event) => {
              event.preventDefault();
              setOver(true);
            }}
            onDragLeave={() => setOver(false)}
            style={
              over
                ? { outline: '2px dashed var(--mantine-primary-color-filled)', outlineOffset: 4 }
                : undefined
            }
          >
            <Group justify="space-between" mb={4}>
              <Text size="sm" fw={500}>
                {over ? t('submit.dropHere') : 'train.py'}
              </Text>
              <FileButton onChange={load} accept=".py,text/x-python">
                {(props) => (
                  <Button
                    size="compact-xs"
                    variant="subtle"
                    leftSection={<IconUpload size={14} />}
                    {...props}
                  >
                    {t('submit.upload')}
                  </Button>
                )}
              </FileButton>
            </Group>
            <Suspense fallback={<div style={{ height: 300 }} />}>
              <CodeEditor
                value={form.values.code}
                onChange={(code) => form.setFieldValue('code', code)}
                language="python"
                label="train.py"
                placeholder={t('submit.codePlaceholder')}
                height="300px"
              />
            </Suspense>
            {form.errors['code'] !== undefined && (
              <Text size="xs" c="red" role="alert">
                {form.errors['code']}
              </Text>
            )}
          </div>
        ) : (
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label={t('submit.repository')}
              placeholder="https://…/project.git"
              {...form.getInputProps('repository')}
            />
            <TextInput label={t('submit.branch')} placeholder="main" {...form.getInputProps('branch')} />
          </SimpleGrid>
        )}
        <Textarea
          label={t('submit.command')}
          description={t('submit.commandHint')}
          placeholder="python3 /workspace/scripts/train.py"
          autosize
          minRows={1}
          styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          {...form.getInputProps('command')}
        />
      </Stack>
    </Card>
  );
}
