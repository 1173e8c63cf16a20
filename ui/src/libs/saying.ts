import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';

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

/** The server writes its hints as parts of a sentence. */
export function asSentence(text: string): string {
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
  // Quantities are for programs: 1600m of a CPU are 1.6.
  for (const [name, value] of Object.entries(parameters)) {
    if (typeof value === 'string' && /^\d+m$/.test(value))
      parameters[name] = Number(value.slice(0, -1)) / 1000;
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
      if (i18n.language === 'en') return said.reason ?? said.summary ?? said.message ?? '';
      return sentence(said, t as unknown as Translate, (key) => i18n.exists(key));
    },
    [t, i18n],
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
      const key = `hint.${said.cause?.code ?? ''}`;
      if (i18n.language === 'en' || !i18n.exists(key))
        return said.hint == null ? undefined : asSentence(said.hint);
      return (t as unknown as Translate)(key);
    },
    [t, i18n],
  );
}

/** The refusals of the create form, by their English words; the named groups are the parameters of the translation. */
const REFUSALS: [RegExp, string][] = [
  [/^is required/, 'required'],
  [/^must not be empty/, 'empty'],
  [/^must be between (?<low>\S+) and (?<high>\S+), not (?<value>.+)$/, 'between'],
  [/^must be at least (?<low>\S+), not (?<value>.+)$/, 'atLeast'],
  [/^must not be above its limit: (?<value>.+) is more than (?<limit>.+)$/, 'aboveLimit'],
  [/^(?<value>".*") is not a quantity; write (?<right>.+)$/, 'quantity'],
  [/^must have at most (?<limit>\d+) (?:characters|entries)/, 'tooMany'],
  [/^must consist of lower-case letters, digits and dashes; (?<value>.+) is none of them$/, 'letters'],
  [/^must begin and end with a letter or digit/, 'ends'],
  [/^must begin with a letter(?: or _)?/, 'begins'],
  [
    /^is too long: (?<value>".*") has (?<has>\d+) characters and its pods' names have room for (?<room>\d+)/,
    'podNames',
  ],
  [/^(?<value>.+) is given twice$/, 'twice'],
  [/^must be an absolute path; write (?<right>.+)$/, 'absolute'],
  [/^it is this machine or in a private network/, 'private'],
  [/^must be a URL such as (?<right>.+)$/, 'url'],
  [/^must be an image reference/, 'image'],
  [/^(?<value>.+) is set by the runtime and cannot be changed$/, 'reserved'],
  [/^unknown framework/, 'framework'],
  [/^there is no runtime (?<value>.+)$/, 'runtime'],
  [/^needs a runtime that fetches it/, 'gitRuntime'],
  [/^(?<value>\S+) has no launcher$|^the runtime (?<runtime>\S+) has no launcher$/, 'launcher'],
  [/^must be (?<want>.+), not (?<value>.+)$/, 'kind'],
];

export function refusalOf(message: string): { key: string; parameters: Record<string, string> } | undefined {
  for (const [pattern, key] of REFUSALS) {
    const match = pattern.exec(message);
    if (match !== null) return { key: `refusal.${key}`, parameters: { ...match.groups } };
  }
  return undefined;
}

/** A refusal of the server at a field, in the words of the page where it knows it. */
export function useRefusal() {
  const { t } = useTranslation();
  return useCallback(
    (message: string) => {
      const known = refusalOf(message);
      return known === undefined ? message : (t as unknown as Translate)(known.key, known.parameters);
    },
    [t],
  );
}
