import type { Schemas } from '@/services/client';

const STORED = 'astrago.images';
const MOST = 12;

/** The images that this browser used, the newest first, and those of the catalogue. */
export function knownImages(runtimes: Schemas['Runtime'][]): string[] {
  const catalogue = runtimes.flatMap((runtime) => runtime.image ?? []);
  return [...new Set([...used(), ...catalogue])];
}

export function rememberImage(image: string | null | undefined) {
  if (image == null || image === '') return;
  const images = [image, ...used().filter((one) => one !== image)].slice(0, MOST);
  localStorage.setItem(STORED, JSON.stringify(images));
}

function used(): string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(STORED) ?? '[]');
    return Array.isArray(stored) ? stored.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}
