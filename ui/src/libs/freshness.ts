/** Whether the page that runs here is the one that the server has now. */

const RELOADED = 'astrago.reloaded';
/** A page that breaks again right after it was reloaded is not reloaded for ever. */
const ENOUGH = 60_000;

/** The script that a page begins with; its name has a digest of its content. */
export function entryOf(html: string): string | undefined {
  return /<script type="module"[^>]* src="([^"]+)"/.exec(html)?.[1];
}

export async function freshness(): Promise<'same' | 'newer' | 'away'> {
  try {
    const answer = await fetch('/', { cache: 'no-store' });
    if (!answer.ok) return 'away';
    const own = document.querySelector<HTMLScriptElement>('script[type=module][src]')?.getAttribute('src');
    return entryOf(await answer.text()) === own ? 'same' : 'newer';
  } catch {
    return 'away';
  }
}

/** Reloads the page, unless that was tried a moment ago. */
export function reloadOnce(): boolean {
  const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
  if (Date.now() - last < ENOUGH) return false;
  sessionStorage.setItem(RELOADED, String(Date.now()));
  window.location.reload();
  return true;
}
