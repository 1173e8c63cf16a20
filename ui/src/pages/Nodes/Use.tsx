import { Progress, Text } from '@mantine/core';

import classes from './Nodes.module.css';

/** How much of something is taken. */
export function Use(props: { label: string; used: number; total: number; text: (value: number) => string }) {
  const { label, used, total, text } = props;
  if (total === 0) return <Text size="sm">–</Text>;
  return (
    <div className={classes.use}>
      <div className={classes.numbers}>
        <span>
          {text(used)} / {text(total)}
        </span>
        <Text span c="dimmed" fz="inherit">
          {Math.round((used / total) * 100)} %
        </Text>
      </div>
      <Progress
        size={5}
        value={(used / total) * 100}
        color={used / total > 0.9 ? 'orange.8' : 'indigo.6'}
        aria-label={label}
      />
    </div>
  );
}
