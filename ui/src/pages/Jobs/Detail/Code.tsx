import { Button, Group, NavLink, Skeleton, Text } from '@mantine/core';
import { IconDownload, IconFile, IconBrandPython, IconFolder } from '@tabler/icons-react';
import { useMemo, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { CodeEditor } from '@/components/CodeEditor';
import { Empty } from '@/components/Empty';
import { ErrorNote } from '@/components/ErrorNote';
import { bytes } from '@/libs/amounts';
import { type Folder, folderOf, isText } from '@/libs/tree';
import type { File } from '@/libs/tar';
import { ApiError } from '@/services/client';
import { codeUrl, useJobCode } from '@/services/code';
import type { JobKey } from '@/services/jobs';

import classes from './Code.module.css';

/** The files that the job runs, as they were when it was submitted. */
export function Code({ jobKey }: { jobKey: JobKey }) {
  const { t } = useTranslation();
  const code = useJobCode(jobKey);
  const [picked, setPicked] = useState<string>();
  const files = useMemo(() => code.data ?? [], [code.data]);
  const root = useMemo(() => folderOf(files), [files]);
  if (code.error instanceof ApiError && code.error.status === 404)
    return <Empty title={t('code.none')}>{t('code.noneHint')}</Empty>;
  if (code.error !== null) return <ErrorNote error={code.error} onRetry={() => void code.refetch()} />;
  if (code.data === undefined) return <Skeleton h="60vh" />;
  const shown = files.find((file) => file.path === picked) ?? usual(files);
  const size = files.reduce((sum, file) => sum + file.bytes.length, 0);
  return (
    <>
      <Group justify="space-between" mb="xs">
        <Text size="sm" c="dimmed">
          {t('code.files', { count: files.length, size: bytes(size) })}
        </Text>
        <Button
          component="a"
          href={codeUrl(jobKey)}
          download
          size="xs"
          variant="default"
          leftSection={<IconDownload size={14} />}
        >
          {t('logs.download')}
        </Button>
      </Group>
      <div className={files.length > 1 ? classes.split : undefined}>
        {files.length > 1 && (
          <nav className={classes.tree} aria-label={t('code.tree')}>
            <Tree folder={root} shown={shown?.path} onPick={setPicked} />
          </nav>
        )}
        {shown !== undefined && <Content file={shown} />}
      </div>
    </>
  );
}

function Content({ file }: { file: File }) {
  const { t } = useTranslation();
  if (!isText(file.bytes))
    return <Empty title={file.path}>{t('code.binary', { size: bytes(file.bytes.length) })}</Empty>;
  return (
    <CodeEditor
      key={file.path}
      value={new TextDecoder().decode(file.bytes)}
      language={/\.ya?ml$/.test(file.path) ? 'yaml' : file.path.endsWith('.py') ? 'python' : 'text'}
      label={file.path}
      height="60vh"
    />
  );
}

function Tree(props: { folder: Folder; shown: string | undefined; onPick: (path: string) => void }) {
  const { folder, shown, onPick } = props;
  return (
    <>
      {folder.folders.map((one) => (
        <NavLink
          key={one.path}
          label={one.name}
          leftSection={<IconFolder size={15} stroke={1.5} />}
          childrenOffset={16}
          defaultOpened={shown?.startsWith(`${one.path}/`) === true || folder.folders.length < 6}
          className={classes.item}
        >
          <Tree folder={one} shown={shown} onPick={onPick} />
        </NavLink>
      ))}
      {folder.files.map(({ path, name }) => (
        <NavLink
          key={path}
          component="button"
          type="button"
          label={name}
          title={path}
          leftSection={
            name.endsWith('.py') ? (
              <IconBrandPython size={15} stroke={1.5} />
            ) : (
              <IconFile size={15} stroke={1.5} />
            )
          }
          active={path === shown}
          aria-current={path === shown}
          onClick={() => onPick(path)}
          className={classes.item}
        />
      ))}
    </>
  );
}

/** The one that is most likely looked for. */
function usual(files: File[]): File | undefined {
  return (
    files.find((file) => file.path === 'train.py') ??
    files.find((file) => file.path === 'main.py') ??
    files.find((file) => file.path.endsWith('.py')) ??
    files[0]
  );
}
