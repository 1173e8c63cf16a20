/** Every address of the page, spelled once. */
export const ROUTES = {
  jobs: '/jobs',
  job: {
    template: '/jobs/:namespace/:name/*',
    path: (namespace: string, name: string, tab = '') => `/jobs/${namespace}/${name}${tab && `/${tab}`}`,
  },
  compare: '/compare',
  compared: (jobs: { namespace: string; name: string }[]) =>
    `/compare?${new URLSearchParams(jobs.map(({ namespace, name }) => ['job', `${namespace}/${name}`])).toString()}`,
  submit: '/submit',
  nodes: '/nodes',
  node: { template: '/nodes/:name', path: (name: string) => `/nodes/${encodeURIComponent(name)}` },
  queue: '/queue',
  runtimes: '/runtimes',
  runtime: { template: '/runtimes/:name', path: (name: string) => `/runtimes/${encodeURIComponent(name)}` },
  settings: '/settings',
  login: '/login',
} as const;
