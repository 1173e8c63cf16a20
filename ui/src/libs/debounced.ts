import { useDebouncedValue } from '@mantine/hooks';

/** A value that follows with a little delay, so that a request is made per thought and not per key. */
export function useSettled<T>(value: T): T {
  const [settled] = useDebouncedValue(value, 350);
  return settled;
}
