/** Every address of the page, spelled once. */
export const ROUTES = {
  jobs: '/jobs',
  job: {
    template: '/jobs/:namespace/:name/*',
    path: (namespace: string, name: string, tab = '') => `/jobs/${namespace}/${name}${tab && `/${tab}`}`,
  },
  submit: '/submit',
  nodes: '/nodes',
  queue: '/queue',
  runtimes: '/runtimes',
  settings: '/settings',
  login: '/login',
} as const;
