import { Text } from '@mantine/core';
import { modals } from '@mantine/modals';
import { useCallback } from 'react';
import { useTranslation } from 'react-i18next';

interface Question {
  title: string;
  text: string;
  confirm: string;
  /** Whether something is lost by it. */
  danger?: boolean;
  onConfirm: () => void;
}

/** Asks before something that cannot be undone. */
export function useConfirm() {
  const { t } = useTranslation();
  return useCallback(
    ({ title, text, confirm, danger = false, onConfirm }: Question) =>
      modals.openConfirmModal({
        title,
        children: <Text size="sm">{text}</Text>,
        labels: { confirm, cancel: t('action.cancel') },
        confirmProps: { color: danger ? 'red.9' : undefined },
        closeButtonProps: { 'aria-label': t('action.cancel') },
        onConfirm,
      }),
    [t],
  );
}
