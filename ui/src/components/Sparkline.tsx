import { pathOf } from '@/libs/spark';

const WIDTH = 56;
const HEIGHT = 20;

/** A curve as wide as a word, for the eye only: the number beside it says what it comes to. */
export function Sparkline({ values }: { values: number[] }) {
  if (values.length < 2) return null;
  return (
    <svg width={WIDTH} height={HEIGHT} aria-hidden="true" data-spark style={{ flex: 'none' }}>
      <path
        d={pathOf(values, WIDTH, HEIGHT)}
        fill="none"
        stroke="var(--mantine-primary-color-filled)"
        strokeWidth={1.5}
        strokeLinejoin="round"
      />
    </svg>
  );
}
