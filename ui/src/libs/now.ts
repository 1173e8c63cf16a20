import { useSyncExternalStore } from 'react';

/** One clock for all that shows running time: it ticks each second while somebody looks. */
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(changed: () => void) {
  listeners.add(changed);
  // After a pause the clock stands where it was.
  now = Date.now();
  timer ??= setInterval(() => {
    if (document.hidden) return;
    now = Date.now();
    for (const listener of listeners) listener();
  }, 1_000);
  return () => {
    listeners.delete(changed);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
