import { Badge } from '@mantine/core';
import {
  IconCheck,
  IconClock,
  IconPlayerPause,
  IconPlayerPlay,
  IconRefresh,
  IconX,
} from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import type { ShownState } from '@/libs/state';
import { stateColor } from '@/libs/state';

const ICONS = {
  Pending: IconClock,
  Running: IconPlayerPlay,
  Restarting: IconRefresh,
  Suspending: IconPlayerPause,
  Suspended: IconPlayerPause,
  Complete: IconCheck,
  Failed: IconX,
} as const;

/** A job's state by colour, sign and word, so that no one has to tell colours apart. */
export function StateBadge({ state }: { state: ShownState }) {
  const { t } = useTranslation();
  const Icon = ICONS[state];
  return (
    <Badge
      color={stateColor(state)}
      variant="light"
      leftSection={<Icon size={12} />}
      tt="none"
      data-state={state}
      title={t(`stateHint.${state}`)}
    >
      {t(`state.${state}`)}
    </Badge>
  );
}
