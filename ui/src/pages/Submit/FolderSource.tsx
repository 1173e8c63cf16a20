import { Button, Loader, Select, SimpleGrid, Text } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { IconFolderOpen, IconFolderUp } from '@tabler/icons-react';
import { type DragEvent, useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { bytes } from '@/libs/amounts';
import { useSnapshot, useUpload } from '@/services/code';

import { chosen, contents, dropped, entriesOf, MOST_BYTES, MOST_FILES, wanted } from './folder';
import type { Form } from './form';
import classes from './Submit.module.css';

/** A folder of code, dropped or chosen. It is uploaded at once, so that the preview shows what will run. */
export function FolderSource({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const { namespace, snapshot, scripts } = form.values;
  const [over, setOver] = useState(false);
  const [problem, setProblem] = useState<string>();
  const upload = useUpload();
  const stored = useSnapshot(snapshot, namespace);
  const input = useRef<HTMLInputElement>(null);

  // Not an attribute that React knows.
  useEffect(() => input.current?.setAttribute('webkitdirectory', ''), []);

  const take = async (all: ReturnType<typeof chosen>) => {
    const found = await wanted(all);
    const size = found.reduce((sum, one) => sum + one.file.size, 0);
    setProblem(undefined);
    if (found.length === 0) return;
    if (found.length > MOST_FILES || size > MOST_BYTES) {
      setProblem(
        t('submit.folderTooLarge', { count: found.length, size: bytes(size), most: bytes(MOST_BYTES) }),
      );
      return;
    }
    const info = await upload.mutateAsync({ namespace, files: await contents(found) }).catch(() => undefined);
    if (info === undefined) return;
    const names = entriesOf(found.map((one) => one.path));
    form.setValues({ snapshot: info.digest, scripts: names, entry: names[0] ?? '' });
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void dropped(event.dataTransfer.items).then(take);
  };

  return (
    <div>
      <div
        data-drop-folder
        data-over={over || undefined}
        className={`${classes.drop} ${classes.zone}`}
        onDrop={drop}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
      >
        {upload.isPending ? <Loader size={24} /> : <IconFolderUp size={26} stroke={1.5} aria-hidden />}
        <Text size="sm" fw={550} role="status">
          {upload.isPending
            ? t('submit.folderUploading')
            : stored.data !== undefined
              ? t('code.files', { count: stored.data.files, size: bytes(stored.data.bytes) })
              : t('submit.folderDrop')}
        </Text>
        <Text size="xs" c="dimmed" maw={420}>
          {t('submit.folderHint')}
        </Text>
        <Button
          mt={4}
          size="xs"
          variant="default"
          leftSection={<IconFolderOpen size={14} />}
          onClick={() => input.current?.click()}
        >
          {snapshot === '' ? t('submit.folderChoose') : t('submit.folderOther')}
        </Button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          data-folder
          aria-label={t('submit.folderChoose')}
          onChange={(event) => {
            if (event.currentTarget.files !== null) void take(chosen(event.currentTarget.files));
            event.currentTarget.value = '';
          }}
        />
      </div>
      {(problem !== undefined || form.errors['snapshot'] !== undefined) && (
        <Text size="xs" c="red" role="alert" mt={4}>
          {problem ?? form.errors['snapshot']}
        </Text>
      )}
      {upload.error !== null && <ErrorNote error={upload.error} />}
      {stored.error !== null && snapshot !== '' && <ErrorNote error={stored.error} />}
      {snapshot !== '' && scripts.length > 0 && <Entry form={form} />}
    </div>
  );
}

function Entry({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }} mt="sm">
      <Select
        label={t('submit.entry')}
        description={t('submit.entryHint')}
        data={form.values.scripts}
        searchable
        allowDeselect={false}
        value={form.values.entry}
        error={form.errors['entry']}
        onChange={(value) => form.setFieldValue('entry', value ?? '')}
      />
    </SimpleGrid>
  );
}
