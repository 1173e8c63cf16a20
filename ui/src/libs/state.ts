/** The states of a job that the server tells apart. */
export const STATES = ['Pending', 'Running', 'Restarting', 'Suspended', 'Complete', 'Failed'] as const;
export type State = (typeof STATES)[number];

export function stateColor(state: State): string {
  switch (state) {
    case 'Pending':
      return 'gray';
    case 'Running':
      return 'blue';
    case 'Restarting':
      return 'orange';
    case 'Suspended':
      return 'grape';
    case 'Complete':
      return 'green';
    case 'Failed':
      return 'red';
    default:
      return state satisfies never;
  }
}

export function isFinished(state: State): boolean {
  return state === 'Complete' || state === 'Failed';
}
