import { Anchor, Badge, Button, Group, Stack, TagsInput, Text, Textarea } from '@mantine/core';
import { IconPencil } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { Section } from '@/components/Section';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useSetNotes } from '@/services/jobs';

/** What people wrote to the job: tags to find it by, and a note. Of a job that is gone it can only be read. */
export function Written({ job }: { job: Schemas['JobDetail'] }) {
  const { t } = useTranslation();
  const [editing, setEditing] = useState(false);
  const { tags = [], note } = job;
  const gone = job.archived === true;
  if (gone && tags.length === 0 && note == null) return null;
  return (
    <Section
      title={t('notes.title')}
      tools={
        !gone &&
        !editing && (
          <Button
            size="compact-sm"
            variant="subtle"
            leftSection={<IconPencil size={14} />}
            onClick={() => setEditing(true)}
          >
            {t('notes.edit')}
          </Button>
        )
      }
    >
      {editing ? (
        <Editor job={job} onDone={() => setEditing(false)} />
      ) : (
        <Stack gap="xs" data-notes>
          {tags.length > 0 && (
            <Group gap={6}>
              {tags.map((tag) => (
                <Anchor key={tag} component={Link} to={`${ROUTES.jobs}?tag=${encodeURIComponent(tag)}`}>
                  <Badge color="gray" style={{ cursor: 'pointer', textTransform: 'none' }}>
                    {tag}
                  </Badge>
                </Anchor>
              ))}
            </Group>
          )}
          <Text size="sm" style={{ whiteSpace: 'pre-wrap' }} {...(note == null && { c: 'dimmed' })}>
            {note ?? (tags.length === 0 ? t('notes.none') : '')}
          </Text>
        </Stack>
      )}
    </Section>
  );
}

function Editor({ job, onDone }: { job: Schemas['JobDetail']; onDone: () => void }) {
  const { t } = useTranslation();
  const [tags, setTags] = useState(job.tags ?? []);
  const [note, setNote] = useState(job.note ?? '');
  const save = useSetNotes(job);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate({ note, tags }, { onSuccess: onDone });
      }}
    >
      <Stack gap="xs">
        <TagsInput
          data-autofocus
          label={t('notes.tags')}
          description={t('notes.tagsHint')}
          value={tags}
          onChange={setTags}
          splitChars={[',']}
          acceptValueOnBlur
        />
        <Textarea
          label={t('notes.note')}
          autosize
          minRows={3}
          maxRows={12}
          value={note}
          onChange={(event) => setNote(event.currentTarget.value)}
        />
        {save.error !== null && <ErrorNote error={save.error} />}
        <Group gap="xs" justify="flex-end">
          <Button size="xs" variant="default" onClick={onDone}>
            {t('action.cancel')}
          </Button>
          <Button size="xs" type="submit" loading={save.isPending}>
            {t('action.save')}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
