import { notifications } from '@mantine/notifications';
import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';

import { useProblem } from '@/libs/saying';

/** Says in a corner of the page that something failed, and leaves it there until it is read. */
export function useFailed() {
  const { t } = useTranslation();
  const problem = useProblem();
  return useCallback(
    (error: unknown, title?: string) =>
      notifications.show({
        color: 'red',
        ...(title !== undefined && { title }),
        message: typeof error === 'string' ? error : problem(error),
        autoClose: false,
        closeButtonProps: { 'aria-label': t('action.close') },
        role: 'alert',
      }),
    [t, problem],
  );
}
