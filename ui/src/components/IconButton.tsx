import { ActionIcon, type ActionIconProps, type ElementProps, Tooltip } from '@mantine/core';

interface Props extends ActionIconProps, ElementProps<'button', keyof ActionIconProps> {
  /** What it does: its name, and what is shown beside the pointer. */
  label: string;
}

/** A button with nothing but an icon; quiet, unless it says otherwise. */
export function IconButton({ label, ...props }: Props) {
  return (
    <Tooltip label={label}>
      <ActionIcon
        {...(props.variant === undefined && { variant: 'subtle', color: 'gray' })}
        aria-label={label}
        {...props}
      />
    </Tooltip>
  );
}
