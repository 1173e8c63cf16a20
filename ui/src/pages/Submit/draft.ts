import { useEffect } from 'react';

import { recall, remember } from '@/libs/own';

import { EMPTY, type Form, keepable } from './form';

/** What is typed survives a reload, as long as it is not submitted; and what was submitted last can be had again. */
export type Kept = 'request-draft' | 'request-last';

export function kept(user: string, which: Kept): Form | undefined {
  const form = recall<Partial<Form>>(user, which);
  // One of an earlier version may lack fields.
  return form === undefined ? undefined : { ...EMPTY, ...form };
}

export function keep(user: string, which: Kept, form: Form | undefined) {
  remember(user, which, form === undefined ? undefined : keepable(form));
}

/** Keeps the draft as it is after each pause in typing; an empty form is none. */
export function useDraft(user: string, settled: Form, empty: Form, on: boolean) {
  useEffect(() => {
    if (on)
      keep(user, 'request-draft', JSON.stringify(settled) === JSON.stringify(empty) ? undefined : settled);
  }, [user, settled, empty, on]);
}
