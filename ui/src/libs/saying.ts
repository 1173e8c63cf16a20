import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';

import { amounts, quantity } from '@/libs/amounts';
import { plain } from '@/libs/ansi';
import { ApiError, type Refused, type Schemas, UNREACHABLE } from '@/services/client';

/** What the server says in a sentence of its own, and for programs as a code with its words and numbers. */
export interface Said {
  cause?: { code: string; parameters?: Record<string, unknown> } | null | undefined;
  message?: string;
  reason?: string;
  summary?: string;
}

const RESOURCES: Record<string, string> = {
  cpu: 'CPU',
  memory: 'resource.memory',
  'nvidia.com/gpu': 'GPU',
  pods: 'resource.pods',
};

const AMOUNTS = ['needed', 'free', 'largest', 'all', 'hard'];

/** The server writes its hints as parts of a sentence. */
export function asSentence(text: string): string {
  if (text === '') return '';
  const begun = text.slice(0, 1).toUpperCase() + text.slice(1);
  return /[.!?다]$/.test(begun) ? begun : `${begun}.`;
}

type Translate = (key: string, parameters?: Record<string, unknown>) => string;

/** The sentence of a code in the reader's language; the server's own sentence where the code is not known. */
export function sentence(said: Said, t: Translate, exists: (key: string) => boolean): string {
  const own = said.reason ?? said.summary ?? said.message ?? '';
  const key = `cause.${said.cause?.code ?? ''}`;
  if (said.cause == null || !exists(key)) return own;
  const parameters = { ...said.cause.parameters };
  const resource = parameters['resource'];
  if (typeof resource === 'string') {
    const known = RESOURCES[resource.replace(/^requests\./, '')];
    parameters['resource'] = known === undefined ? resource : exists(known) ? t(known) : known;
  }
  for (const name of AMOUNTS) {
    const amount = parameters[name];
    if (typeof amount === 'string') parameters[name] = quantity(amount);
  }
  // Kubernetes repeats itself in what it says in its own words; those stay as they are.
  const text = t(key, parameters);
  const worker = parameters['worker'] === undefined ? '' : t('cause.ofWorker', parameters);
  const ahead = Number(parameters['ahead'] ?? 0);
  const behind =
    ahead > 0 && said.cause.code !== 'behind' ? ` ${t('cause.behind', { ...parameters, count: ahead })}` : '';
  return `${worker}${text}${behind}`;
}

export function useSaying() {
  const { t, i18n } = useTranslation();
  return useCallback(
    (said: Said) => {
      // The server speaks English itself, and knows more words than we do.
      // Programs are quoted in it, with the colours that they print.
      if (i18n.language === 'en') return plain(said.reason ?? said.summary ?? said.message ?? '');
      return plain(sentence(said, t as unknown as Translate, (key) => i18n.exists(key)));
    },
    [t, i18n],
  );
}

/** What a node gets; a job that asks for nothing takes what there is. */
export function useSize() {
  const { t } = useTranslation();
  return useCallback((size: Schemas['Amounts']) => amounts(size) || t('resource.unlimited'), [t]);
}

/** Why a job failed, in as few words as a list has room for. */
export function useFailedBy() {
  const { t } = useTranslation();
  return useCallback(
    ({ failed_by: why, num_nodes: nodes }: Pick<Schemas['JobSummary'], 'failed_by' | 'num_nodes'>) => {
      if (why == null) return '';
      const { text: quoted, exit_code: code } = (why.cause.parameters ?? {}) as {
        text?: string;
        exit_code?: number;
      };
      const text = quoted && plain(quoted);
      const kind = t(`failure.${why.kind}`);
      // The name of an exception says more than that it is one.
      const own = why.kind === 'python_exception' ? text : text && `${kind}: ${text}`;
      const what = own ?? (code === undefined ? kind : `${kind} (${t('job.exit', { code })})`);
      return why.worker != null && nodes > 1 ? t('failure.onWorker', { what, worker: why.worker }) : what;
    },
    [t],
  );
}

/** What an event says: by its reason in the reader's language, otherwise in Kubernetes' own words. */
export function useHappening() {
  const { t, i18n } = useTranslation();
  return useCallback(
    (event: { reason: string; message: string }) => {
      const key = `event.${event.reason}`;
      if (i18n.language === 'en' || !i18n.exists(key)) return event.message;
      return (t as unknown as Translate)(key);
    },
    [t, i18n],
  );
}

/** What to do about a failure. */
export function useHint() {
  const { t, i18n } = useTranslation();
  return useCallback(
    (said: Said & { hint?: string | null | undefined }) => {
      // The server's own words are for terminals too, and name what only a terminal has.
      const key = `hint.${said.cause?.code ?? ''}`;
      if (!i18n.exists(key)) return said.hint == null ? undefined : asSentence(said.hint);
      return (t as unknown as Translate)(key);
    },
    [t, i18n],
  );
}

/** What went wrong, in the reader's language as far as the server says it by a code. */
export function useProblem() {
  const { t, i18n } = useTranslation();
  return useCallback(
    (error: unknown): string => {
      if (error instanceof ApiError && error.status === UNREACHABLE) return t('login.unreachable');
      const key = `error.code.${error instanceof ApiError ? error.code : ''}`;
      if (i18n.language !== 'en' && i18n.exists(key)) return (t as unknown as Translate)(key);
      return error instanceof Error ? asSentence(error.message) : String(error);
    },
    [t, i18n],
  );
}

/** A refusal of the server at a field; what has no code of its own stays in the server's words. */
export function useRefusal() {
  const { t, i18n } = useTranslation();
  return useCallback(
    (refused: Refused) => {
      const key = `refusal.${refused.code ?? ''}`;
      if (i18n.language === 'en' || !i18n.exists(key)) return refused.message;
      return (t as unknown as Translate)(key, refused.parameters);
    },
    [t, i18n],
  );
}

/** Where a training stands (`epoch 2 of 3, step 120 of 469`). */
export function useStep() {
  const { t, i18n } = useTranslation();
  return ({ step, counts = [] }: Schemas['Progress']) =>
    i18n.language === 'en'
      ? step
      : counts
          .map(({ unit, at, of }) => {
            const numbers = { at: Number(at.toFixed(2)), of: of == null ? '' : `/${Number(of.toFixed(2))}` };
            return t(`progress.${unit}`, numbers);
          })
          .join(', ');
}
