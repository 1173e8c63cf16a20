import { Box, Button, Grid, Group, Stack, Text, Title } from '@mantine/core';
import { useForm, type UseFormReturnType } from '@mantine/form';
import { useHotkeys } from '@mantine/hooks';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate, useSearchParams } from 'react-router';

import { useConfirm } from '@/components/confirm';
import { ErrorNote } from '@/components/ErrorNote';
import { Keys } from '@/components/Keys';
import { useSettled } from '@/libs/debounced';
import { runtimeOf } from '@/libs/frameworks';
import { useRefusal } from '@/libs/saying';
import { ROUTES } from '@/routes';
import { ApiError, type Schemas } from '@/services/client';
import { cloneOf, useCreate, useFit, usePreview } from '@/services/jobs';
import { useRuntimes } from '@/services/places';

import { CodeSection } from './CodeSection';
import { keep, kept, useDraft } from './draft';
import { EMPTY, fieldOf, type Form, formOf, hasCode, requestOf, unfinished } from './form';
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
  const [search] = useSearchParams();
  const clone = search.get('clone');
  const wanted = search.get('runtime');
  const initial = useMemo(() => ({ ...EMPTY, namespace: me.namespace ?? 'default' }), [me]);
  // What one was typing is there again, unless something else was asked for.
  const [draft] = useState(() =>
    clone === null && wanted === null ? kept(me.user, 'request-draft') : undefined,
  );
  const form = useForm<Form>({ initialValues: draft ?? initial });
  const create = useCreate();
  // One key per filled form: pressing the button twice, or again after a lost answer, makes one job.
  const attempt = useRef(crypto.randomUUID());

  const start = useStart(form, clone, wanted);
  const { request, shown, settled } = useRequest(form.values, me.user);
  const ready = hasCode(form.values);
  useDraft(me.user, settled, initial, clone === null && wanted === null);
  const preview = usePreview(shown);
  const fit = useFit(shown);

  useMistakes(form, preview.error ?? create.error);

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
          keep(me.user, 'request-last', form.values);
          keep(me.user, 'request-draft', undefined);
          rememberImage(me.user, request.image);
          void navigate(ROUTES.job.path(created.namespace, created.trainjob_name));
        },
      },
    );
  };
  const last = kept(me.user, 'request-last');

  const formElement = useRef<HTMLFormElement>(null);
  useHotkeys([['mod+Enter', () => formElement.current?.requestSubmit()]], []);
  const fill = (next: Partial<Form>) => {
    // What refills the form is no copy of the job that it was opened with.
    form.setValues({ origin: null, ...next });
    form.clearErrors();
    create.reset();
  };
  const pick = usePick(form, fill);
  const reset = () => {
    keep(me.user, 'request-draft', undefined);
    fill(initial);
  };

  const fresh = draft === undefined ? t('submit.hint') : t('submit.draft');
  const told = start.cloned ? t('submit.cloneOf', { name: clone?.split('/')[1] }) : fresh;

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
          <Title order={2}>{t('nav.submit')}</Title>
          <Text size="sm" c="dimmed">
            {told}
          </Text>
        </div>
        <Templates onPick={pick} onLast={last === undefined ? undefined : () => pick(last)} />
      </Group>
      {start.error !== undefined && (
        <Box mb="md">
          <ErrorNote error={start.error} />
        </Box>
      )}
      <Grid gap="md">
        <Grid.Col span={{ base: 12, lg: 7 }}>
          <Sections form={form} user={me.user} />
          <Bar create={create} ready={ready} onReset={reset} />
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

function Sections({ form, user }: { form: UseFormReturnType<Form>; user: string }) {
  return (
    <Stack>
      <FrameworkSection form={form} />
      <CodeSection form={form} />
      <ResourceSection form={form} />
      <ImageSection form={form} user={user} />
      <MoreSection form={form} />
    </Stack>
  );
}

/** The request that the form means, and the one that is previewed after each pause in typing. */
function useRequest(values: Form, user: string) {
  const runtimes = useRuntimes();
  const launcher = runtimeOf(values, runtimes.data)?.launcher === true;
  const settled = useSettled(values);
  const request = useMemo(() => requestOf(values, user, launcher), [values, user, launcher]);
  const shown = useMemo(() => {
    const standing: Form = { ...settled, codeSource: 'editor', training_code: STAND_IN };
    return requestOf(hasCode(settled) ? settled : standing, user, launcher);
  }, [settled, user, launcher]);
  return { request, shown, settled };
}

/** Fills the form with what the address asks for: a job that is cloned, or a runtime with its framework. */
function useStart({ setValues }: UseFormReturnType<Form>, clone: string | null, wanted: string | null) {
  const [cloned, setCloned] = useState(false);
  const [error, setError] = useState<Error>();
  useEffect(() => {
    if (clone === null) return;
    const [namespace = '', name = ''] = clone.split('/');
    cloneOf({ namespace, name }).then((request) => {
      setValues(formOf(request));
      setCloned(true);
    }, setError);
  }, [clone, setValues]);
  const runtimes = useRuntimes();
  const runtime = runtimes.data?.find((one) => one.name === wanted);
  useEffect(() => {
    if (runtime === undefined) return;
    setValues({ runtime: runtime.name, framework: runtime.framework ?? EMPTY.framework });
  }, [runtime, setValues]);
  return { cloned, error };
}

/** Shows what the server says is wrong at the fields that it is about. */
function useMistakes(form: UseFormReturnType<Form>, error: Error | null) {
  const refused = useRefusal();
  const { setErrors } = form;
  const values = useRef(form.values);
  useEffect(() => {
    values.current = form.values;
  }, [form.values]);
  useEffect(() => {
    const fields = error instanceof ApiError ? error.fields : [];
    setErrors(
      Object.fromEntries(
        fields.flatMap((field) => {
          const at = fieldOf(field.field, values.current);
          return at === undefined ? [] : [[at, refused(field)]];
        }),
      ),
    );
  }, [error, setErrors, refused]);
}

/** Refills the form. The code of a template may go; what somebody typed goes only when they say so. */
function usePick(form: UseFormReturnType<Form>, fill: (next: Partial<Form>) => void) {
  const { t } = useTranslation();
  const ask = useConfirm();
  const given = useRef('');
  return (next: Partial<Form>) => {
    const replace = () => {
      given.current = next.training_code ?? '';
      fill(next);
    };
    const { training_code: code, codeSource } = form.values;
    if (codeSource !== 'editor' || ['', given.current, next.training_code].includes(code.trim() && code))
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
}

/** It sticks to the edge of the window, and what the server says to the button with it. */
function Bar(props: { create: ReturnType<typeof useCreate>; ready: boolean; onReset: () => void }) {
  const { t } = useTranslation();
  const { create, ready, onReset } = props;
  return (
    <div className={classes.bar}>
      {create.error !== null && <ErrorNote error={create.error} />}
      <Group gap="xs">
        <Button type="submit" loading={create.isPending} disabled={!ready}>
          {t('submit.submit')}
        </Button>
        <Button variant="default" onClick={onReset}>
          {t('submit.reset')}
        </Button>
        <Text size="sm" c="dimmed" ml="auto">
          {ready ? <Keys of="Ctrl Enter" /> : t('submit.needsCode')}
        </Text>
      </Group>
    </div>
  );
}
