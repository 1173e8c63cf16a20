import { useEffect, useRef } from 'react';

const STORED = 'astrago.single-keys';
/** How long a key waits for the one after it. */
const PATIENCE = 1_200;

/** Whether keys without Ctrl do something; people who speak to their machine turn them off (WCAG 2.1.4). */
export function singleKeys(): boolean {
  return localStorage.getItem(STORED) !== 'off';
}

export function setSingleKeys(on: boolean) {
  localStorage.setItem(STORED, on ? 'on' : 'off');
}

/** Does what a key, or two one after the other (`g j`), stand for; never while one types. */
export function useKeys(actions: Record<string, () => void>) {
  const latest = useRef(actions);
  useEffect(() => {
    latest.current = actions;
  });
  useEffect(() => {
    let before = '';
    let since = 0;
    const listen = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyped(event.target) || !singleKeys()) return;
      const pair = event.timeStamp - since < PATIENCE ? `${before} ${event.key}` : '';
      const action = latest.current[pair] ?? latest.current[event.key];
      before = event.key;
      since = event.timeStamp;
      if (action === undefined) return;
      before = '';
      event.preventDefault();
      action();
    };
    document.addEventListener('keydown', listen);
    return () => document.removeEventListener('keydown', listen);
  }, []);
}

function isTyped(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName) ||
      target.closest('[role=dialog]') !== null)
  );
}
