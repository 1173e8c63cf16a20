import { recall, remember } from './own';

/** A view of the list under a name: what its address has behind the question mark. */
export interface View {
  name: string;
  search: string;
}

const STORED = 'views';
/** More than these nobody finds again. */
const MOST = 30;

export function viewsOf(user: string): View[] {
  const stored = recall<unknown>(user, STORED);
  if (!Array.isArray(stored)) return [];
  return stored.filter(
    (one: Partial<View> | null): one is View =>
      typeof one?.name === 'string' && typeof one.search === 'string',
  );
}

export function keepViews(user: string, views: View[]) {
  remember(user, STORED, views.length === 0 ? undefined : views);
}

/** With one more; a name that there is already is given anew. */
export function withView(views: View[], view: View): View[] {
  const others = views.filter((one) => one.name !== view.name);
  return [...others, view].toSorted((a, b) => a.name.localeCompare(b.name)).slice(0, MOST);
}

/** What of an address is the view, always in the same order; which of its pages one is at is not. */
export function viewIn(search: URLSearchParams): string {
  const view = new URLSearchParams(search);
  view.delete('page');
  view.sort();
  return view.toString();
}
