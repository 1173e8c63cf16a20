import {
  IconAdjustments,
  IconLayoutList,
  IconListNumbers,
  IconPackages,
  IconPlus,
  IconServer,
} from '@tabler/icons-react';

import { ROUTES } from './routes';

/** The pages of the navigation, with the keys that lead there. */
export const PAGES = [
  { key: 'jobs', to: ROUTES.jobs, icon: IconLayoutList, keys: 'g j' },
  { key: 'submit', to: ROUTES.submit, icon: IconPlus, keys: 'c' },
  { key: 'queue', to: ROUTES.queue, icon: IconListNumbers, keys: 'g q' },
  { key: 'nodes', to: ROUTES.nodes, icon: IconServer, keys: 'g n' },
  { key: 'runtimes', to: ROUTES.runtimes, icon: IconPackages, keys: 'g r' },
  { key: 'settings', to: ROUTES.settings, icon: IconAdjustments, keys: 'g s' },
] as const;
