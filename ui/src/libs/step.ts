import { useTranslation } from 'react-i18next';

/** The server's words for where a training stands (`epoch 2 of 3, step 120 of 469`), in the reader's language. */
export function useStep() {
  const { t, i18n } = useTranslation();
  return (step: string) =>
    i18n.language === 'en'
      ? step
      : step.replace(
          /(epoch|step) ([\d.]+) of ([\d.]+)/g,
          (_, unit: 'epoch' | 'step', at: string, of: string) => t(`progress.${unit}`, { at, of }),
        );
}
