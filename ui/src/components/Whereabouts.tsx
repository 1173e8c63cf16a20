import { Group, Slider, Text } from '@mantine/core';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { bytes } from '@/libs/amounts';
import type { Log } from '@/services/logs';

import classes from './LogView.module.css';

/** Where in the log the reader is, and a slider to be elsewhere; for logs that do not fit into the window. */
export function Whereabouts(props: {
  log: Log;
  first: number;
  last: number;
  onPick: (thousandths: number) => void;
}) {
  const { t } = useTranslation();
  const { window: held, state } = props.log;
  const [dragged, setDragged] = useState<number>();
  const middle = held.length === 0 ? 1 : (props.first + props.last) / 2 / held.length;
  const at = held.startByte + middle * (held.endByte - held.startByte);
  const part = held.totalBytes === 0 ? 1000 : Math.round((at / held.totalBytes) * 1000);
  const whole = held.first && held.last;
  return (
    <Group gap="md" px="xs" py={4} className={classes.foot} wrap="nowrap">
      <Text size="xs" c="dimmed" role="status" style={{ whiteSpace: 'nowrap' }} data-log-state={state}>
        {t(`logs.stream.${state}`)}
      </Text>
      {!whole && (
        <Slider
          flex={1}
          size="xs"
          min={0}
          max={1000}
          value={dragged ?? Math.min(1000, part)}
          onChange={setDragged}
          onChangeEnd={(value) => {
            setDragged(undefined);
            props.onPick(value);
          }}
          label={(value) => `${(value / 10).toFixed(0)} %`}
          thumbLabel={t('logs.whereabouts')}
        />
      )}
      <Text size="xs" c="dimmed" ml="auto" style={{ whiteSpace: 'nowrap' }}>
        {whole ? t('logs.count', { count: held.length }) : t('logs.size', { size: bytes(held.totalBytes) })}
      </Text>
    </Group>
  );
}
