/** The states of a job that the server tells apart. */
export const STATES = ['Pending', 'Running', 'Restarting', 'Suspended', 'Complete', 'Failed'] as const;
export type State = (typeof STATES)[number];

/** What the page calls it: a job that is suspended while nodes of it still run is not there yet. */
export type ShownState = State | 'Suspending';

export function shownState(job: { state: State; nodes_running: number }): ShownState {
  return job.state === 'Suspended' && job.nodes_running > 0 ? 'Suspending' : job.state;
}

export function stateColor(state: ShownState): string {
  switch (state) {
    case 'Pending':
      return 'gray';
    case 'Running':
      return 'blue';
    case 'Restarting':
      return 'orange';
    case 'Suspended':
    case 'Suspending':
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

/** Whether the state says all that there is to say, and a sentence would only repeat it. */
export function isPlain(job: { state: State; nodes_running: number; num_nodes: number }): boolean {
  const { state, nodes_running, num_nodes } = job;
  return (
    state === 'Complete' || state === 'Suspended' || (state === 'Running' && nodes_running === num_nodes)
  );
}
