import { useMediaQuery } from '@mantine/hooks';

export type Column =
  'name' | 'state' | 'progress' | 'headline' | 'nodes' | 'resources' | 'user' | 'duration' | 'created';

const ALL: readonly Column[] = [
  ...([
    'name',
    'state',
    'progress',
    'headline',
    'nodes',
    'resources',
    'user',
    'duration',
    'created',
  ] as const),
];
/** What is wanted least gives way first. */
const WIDE = ALL.filter((column) => column !== 'resources');
const NARROW = WIDE.filter((column) => !['nodes', 'user', 'duration'].includes(column));

/** The columns that the window has room for; the same array as long as they are the same. */
export function useColumns(): readonly Column[] {
  const wide = useMediaQuery('(min-width: 80em)', true, { getInitialValueInEffect: false });
  const all = useMediaQuery('(min-width: 90em)', true, { getInitialValueInEffect: false });
  return all ? ALL : wide ? WIDE : NARROW;
}

/** How wide each is; a name and its state share what is left. */
export const WIDTHS: Partial<Record<Column, number | string>> = {
  state: '25%',
  progress: 132,
  headline: 140,
  nodes: 66,
  resources: 136,
  user: 82,
  duration: 82,
  created: 90,
};
