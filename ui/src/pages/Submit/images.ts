import { recall, remember } from '@/libs/own';
import type { Schemas } from '@/services/client';

const STORED = 'images';
const MOST = 12;

/** The images that a user had here, the newest first, and those of the catalogue. */
export function knownImages(user: string, runtimes: Schemas['Runtime'][]): string[] {
  const catalogue = runtimes.flatMap((runtime) => runtime.image ?? []);
  return [...new Set([...used(user), ...catalogue])];
}

export function rememberImage(user: string, image: string | null | undefined) {
  if (image == null || image === '') return;
  const images = [image, ...used(user).filter((one) => one !== image)].slice(0, MOST);
  remember(user, STORED, images);
}

function used(user: string): string[] {
  const stored = recall<unknown>(user, STORED);
  return Array.isArray(stored) ? stored.filter((one) => typeof one === 'string') : [];
}
