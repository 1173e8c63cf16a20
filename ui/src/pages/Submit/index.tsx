import { Button, Grid, Group, Stack, Title } from '@mantine/core';
import { useForm } from '@mantine/form';
import { notifications } from '@mantine/notifications';
import { useEffect, useMemo, useRef } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';

import { ErrorNote } from '@/components/ErrorNote';
import { useSettled } from '@/libs/debounced';
import { ROUTES } from '@/routes';
import { ApiError, type Schemas } from '@/services/client';
import { cloneOf, useCreate, useFit, usePreview } from '@/services/jobs';

import { CodeSection } from './CodeSection';
import { EMPTY, type Form, formOf, requestOf } from './form';
import { FrameworkSection } from './FrameworkSection';
import { MoreSection } from './MoreSection';
import { PreviewPane } from './PreviewPane';
import { ResourceSection } from './ResourceSection';
import { Templates } from './Templates';

const LAST = 'astrago.last-request';

/** The fields of the server's answers, by the field of the form that shows them. */
const FIELDS: Record<string, keyof Form> = {
  name: 'name',
  namespace: 'namespace',
  framework: 'framework',
  num_nodes: 'nodes',
  gpu_count: 'gpu',
  cpu_request: 'cpu',
  cpu_limit: 'cpuLimit',
  memory_request: 'memory',
  memory_limit: 'memoryLimit',
  image: 'image',
  training_code: 'code',
  git_repository: 'repository',
  git_branch: 'branch',
  command: 'command',
  max_restarts: 'maxRestarts',
  ttl_seconds_after_finished: 'ttlSeconds',
  deadline_seconds: 'deadlineSeconds',
  priority: 'priority',
};

export function Submit({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [search] = useSearchParams();
  const initial = useMemo(() => ({ ...EMPTY, namespace: me.namespace ?? 'default' }), [me]);
  const form = useForm<Form>({ initialValues: initial });
  const create = useCreate();
  // One key per filled form: pressing the button twice, or again after a lost answer, makes one job.
  const attempt = useRef(crypto.randomUUID());

  const clone = search.get('clone');
  const { setValues } = form;
  useEffect(() => {
    if (clone === null) return;
    const [namespace = '', name = ''] = clone.split('/');
    cloneOf({ namespace, name }).then(
      (request) => setValues(formOf(request)),
      (error: Error) => notifications.show({ color: 'red', message: error.message }),
    );
  }, [clone, setValues]);

  const request = useMemo(() => requestOf(form.values, me.user), [form.values, me.user]);
  const settled = useSettled(request);
  const ready = settled.training_code !== '' || settled.git_repository != null;
  const preview = usePreview(ready ? settled : undefined);
  const fit = useFit(ready ? settled : undefined);

  const { setErrors } = form;
  const problems = preview.error ?? create.error;
  useEffect(() => {
    const fields = problems instanceof ApiError ? problems.fields : [];
    setErrors(
      Object.fromEntries(
        fields.flatMap((field) => {
          const shown = FIELDS[field.field];
          return shown === undefined ? [] : [[shown, field.message]];
        }),
      ),
    );
  }, [problems, setErrors]);

  const submit = () =>
    create.mutate(
      { request, key: attempt.current },
      {
        onSuccess: (created) => {
          localStorage.setItem(LAST, JSON.stringify(request));
          attempt.current = crypto.randomUUID();
          void navigate(ROUTES.job.path(created.namespace, created.trainjob_name));
        },
      },
    );
  const last = localStorage.getItem(LAST);

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Group justify="space-between" mb="md">
        <Title order={2}>{t('submit.title')}</Title>
        <Templates
          onPick={(picked) => form.setValues(picked)}
          onLast={
            last === null
              ? undefined
              : () => form.setValues(formOf(JSON.parse(last) as Schemas['CreateRequest']))
          }
        />
      </Group>
      <Grid gap="lg">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Stack>
            <FrameworkSection form={form} />
            <CodeSection form={form} />
            <ResourceSection form={form} />
            <MoreSection form={form} />
            {create.error !== null && <ErrorNote error={create.error} />}
            <Group>
              <Button type="submit" loading={create.isPending} disabled={!ready}>
                {t('submit.submit')}
              </Button>
              <Button variant="default" onClick={() => form.setValues(initial)}>
                {t('submit.reset')}
              </Button>
            </Group>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <PreviewPane
            request={request}
            preview={preview.data}
            error={preview.error}
            fit={fit.data}
            ready={ready}
          />
        </Grid.Col>
      </Grid>
    </form>
  );
}
