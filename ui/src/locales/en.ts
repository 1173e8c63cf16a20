/** English, and the list of all keys: Korean is checked against it by its type. */
export const en = {
  app: { name: 'Astrago Trainer', loading: 'Loading…', reconnecting: 'Reconnecting to the server…', skip: 'Skip to content' },
  nav: {
    jobs: 'Jobs',
    submit: 'New job',
    nodes: 'Nodes',
    queue: 'Queue',
    runtimes: 'Runtimes',
    settings: 'Settings',
    language: 'Language',
    theme: 'Switch between light and dark',
    menu: 'Menu',
    palette: 'Search and commands',
    logout: 'Sign out',
  },
  login: {
    title: 'Sign in',
    token: 'Access token',
    hint: 'The administrator’s token is in the file admin.token of the data folder (by default ~/.local/share/astrago).',
    submit: 'Sign in',
    wrong: 'This token is not valid.',
    unreachable: 'The server cannot be reached. Is `astrago up` running?',
  },
  state: {
    Pending: 'Pending',
    Running: 'Running',
    Restarting: 'Restarting',
    Suspended: 'Suspended',
    Complete: 'Complete',
    Failed: 'Failed',
  },
  logs: {
    title: 'Log',
    search: 'Search in the log',
    previous: 'Previous match',
    next: 'Next match',
    wrap: 'Wrap',
    times: 'Times',
    follow: 'Follow the end',
    count_one: '{{count}} line',
    count_other: '{{count}} lines',
  },
};

export type Messages = typeof en;
