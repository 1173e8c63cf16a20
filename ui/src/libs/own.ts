/** What is shown for a secret. */
export const HIDDEN = '••••';

/** What this browser keeps for one of its users, and forgets when they sign out. */
const PREFIX = 'astrago.own.';

/** Names of variables whose values are nobody else's business. */
const SECRET = /secret|token|passw|passphrase|pwd|credential|auth|private|api_?key|access_?key|_key$|^key$/i;

export function recall<T>(user: string, name: string): T | undefined {
  try {
    const stored = localStorage.getItem(`${PREFIX}${user}.${name}`);
    return stored === null ? undefined : (JSON.parse(stored) as T);
  } catch {
    return undefined;
  }
}

/** Keeps a value; `undefined` forgets it. A full storage keeps nothing, which loses a convenience only. */
export function remember(user: string, name: string, value: unknown) {
  const key = `${PREFIX}${user}.${name}`;
  try {
    if (value === undefined) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    localStorage.removeItem(key);
  }
}

/** Forgets everything of every user. */
export function forgetAll() {
  for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key);
}

/** Variables without the values that look like secrets, or with something else in their place. */
export function withoutSecrets<T extends { name: string; value: string }>(variables: T[], instead = ''): T[] {
  return variables.map((one) => (SECRET.test(one.name) ? { ...one, value: instead } : one));
}

/** An address without the user and password that may stand in it. */
export function withoutPassword(address: string): string {
  return address.replace(/^(\w+:\/\/)[^/@]*@/, '$1');
}
