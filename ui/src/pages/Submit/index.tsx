import { Button, Grid, Group, Stack, Text, Title } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useHotkeys } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';

import { useConfirm } from '@/components/confirm';
import { ErrorNote } from '@/components/ErrorNote';
import { Keys } from '@/components/Keys';
import { useSettled } from '@/libs/debounced';
import { useRefusal } from '@/libs/saying';
import { ROUTES } from '@/routes';
import { ApiError, type Schemas } from '@/services/client';
import { cloneOf, useCreate, useFit, usePreview } from '@/services/jobs';
import { useRuntimes } from '@/services/places';

import { CodeSection } from './CodeSection';
import { keep, kept, useDraft } from './draft';
import { EMPTY, fieldOf, type Form, formOf, FRAMEWORKS, hasCode, requestOf, unfinished } from './form';
import { FrameworkSection } from './FrameworkSection';
import { rememberImage } from './images';
import { ImageSection } from './ImageSection';
import { MoreSection } from './MoreSection';
import { PreviewPane } from './PreviewPane';
import { ResourceSection } from './ResourceSection';
import classes from './Submit.module.css';
import { Templates } from './Templates';

/** What stands in for the code until there is some, so that the preview has something to show from the start. */
const STAND_IN = '# train.py\n';

export function Submit({ me }: { me: Schemas['WhoAmI'] }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const refused = useRefusal();
  const [search] = useSearchParams();
  const ask = useConfirm();
  const clone = search.get('clone');
  const wanted = search.get('runtime');
  const initial = useMemo(() => ({ ...EMPTY, namespace: me.namespace ?? 'default' }), [me]);
  // What one was typing is there again, unless something else was asked for.
  const [draft] = useState(() => (clone === null && wanted === null ? kept(me.user, 'draft') : undefined));
  const form = useForm<Form>({ initialValues: draft ?? initial });
  const create = useCreate();
  // One key per filled form: pressing the button twice, or again after a lost answer, makes one job.
  const attempt = useRef(crypto.randomUUID());

  const { setValues } = form;
  useEffect(() => {
    if (clone === null) return;
    const [namespace = '', name = ''] = clone.split('/');
    cloneOf({ namespace, name }).then(
      (request) => setValues(formOf(request)),
      (error: Error) => notifications.show({ color: 'red', message: error.message }),
    );
  }, [clone, setValues]);

  // From the catalogue: a runtime, and the framework that it is for.
  const runtimes = useRuntimes();
  const runtime = runtimes.data?.find((one) => one.name === wanted);
  useEffect(() => {
    if (runtime === undefined) return;
    const framework = FRAMEWORKS.find((one) => runtime.name.startsWith(one)) ?? 'pytorch';
    setValues({ runtime: runtime.name, framework });
  }, [runtime, setValues]);

  const request = useMemo(() => requestOf(form.values, me.user), [form.values, me.user]);
  const ready = hasCode(form.values);
  const settled = useSettled(form.values);
  const shown = useMemo(() => {
    const standing: Form = { ...settled, codeSource: 'editor', code: STAND_IN };
    return requestOf(hasCode(settled) ? settled : standing, me.user);
  }, [settled, me.user]);
  useDraft(me.user, settled, initial, clone === null && wanted === null);
  const preview = usePreview(shown);
  const fit = useFit(shown);

  const { setErrors } = form;
  const problems = preview.error ?? create.error;
  const values = useRef(form.values);
  useEffect(() => {
    values.current = form.values;
  }, [form.values]);
  useEffect(() => {
    const fields = problems instanceof ApiError ? problems.fields : [];
    setErrors(
      Object.fromEntries(
        fields.flatMap((field) => {
          const at = fieldOf(field.field, values.current);
          return at === undefined ? [] : [[at, refused(field)]];
        }),
      ),
    );
  }, [problems, setErrors, refused]);

  const submit = () => {
    const blanks = unfinished(form.values);
    if (blanks.length > 0) {
      form.setErrors(Object.fromEntries(blanks.map((field) => [field, t('refusal.required')])));
      return;
    }
    create.mutate(
      { request, key: attempt.current },
      {
        onSuccess: (created) => {
          keep(me.user, 'last', form.values);
          keep(me.user, 'draft', undefined);
          rememberImage(me.user, request.image);
          void navigate(ROUTES.job.path(created.namespace, created.trainjob_name));
        },
      },
    );
  };
  const last = kept(me.user, 'last');

  const formElement = useRef<HTMLFormElement>(null);
  useHotkeys([['mod+Enter', () => formElement.current?.requestSubmit()]], []);
  const fill = (next: Partial<Form>) => {
    form.setValues(next);
    form.clearErrors();
    create.reset();
  };
  // The code of a template may go; what somebody typed goes only when they say so.
  const given = useRef('');
  const pick = (next: Partial<Form>) => {
    const replace = () => {
      given.current = next.code ?? '';
      fill(next);
    };
    const { code, codeSource } = form.values;
    if (codeSource !== 'editor' || code.trim() === '' || code === given.current || code === next.code)
      replace();
    else
      ask({
        title: t('submit.replaceTitle'),
        text: t('submit.replaceText'),
        confirm: t('submit.replace'),
        danger: true,
        onConfirm: replace,
      });
  };
  const reset = () => {
    keep(me.user, 'draft', undefined);
    fill(initial);
  };

  return (
    <form
      ref={formElement}
      onSubmit={(event) => {
        event.preventDefault();
        if (ready && !create.isPending) submit();
      }}
    >
      <Group justify="space-between" mb="md">
        <div>
          <Title order={2}>{t('submit.title')}</Title>
          <Text size="sm" c="dimmed">
            {clone !== null
              ? t('submit.cloneOf', { name: clone.split('/')[1] })
              : draft !== undefined
                ? t('submit.draft')
                : t('submit.hint')}
          </Text>
        </div>
        <Templates onPick={pick} onLast={last === undefined ? undefined : () => pick(last)} />
      </Group>
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Stack>
            <FrameworkSection form={form} />
            <CodeSection form={form} />
            <ResourceSection form={form} />
            <ImageSection form={form} user={me.user} />
            <MoreSection form={form} />
          </Stack>
          {/* It sticks to the edge of the window, and what the server says to the button with it. */}
          <div className={classes.bar}>
            {create.error !== null && <ErrorNote error={create.error} />}
            <Group gap="xs">
              <Button type="submit" loading={create.isPending} disabled={!ready}>
                {t('submit.submit')}
              </Button>
              <Button variant="default" onClick={reset}>
                {t('submit.reset')}
              </Button>
              <Text size="sm" c="dimmed" ml="auto">
                {ready ? <Keys of="Ctrl Enter" /> : t('submit.needsCode')}
              </Text>
            </Group>
          </div>
        </Grid.Col>
        <Grid.Col span={{ base: 12, lg: 5 }}>
          <PreviewPane
            form={settled}
            request={request}
            preview={preview.data}
            error={preview.error}
            fit={fit.data}
          />
        </Grid.Col>
      </Grid>
    </form>
  );
}
