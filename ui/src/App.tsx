import { Center, Loader } from '@mantine/core';
import { lazy, Suspense, useEffect, useMemo } from 'react';
import { Navigate, Route, Routes, useLocation, useNavigate } from 'react-router';

import { Shell } from './components/Shell';
import { type AskedFor, Login } from './pages/Login';
import { ROUTES } from './routes';
import { UNREACHABLE, whenSignedOut, ApiError } from './services/client';
import { useWhoAmI } from './services/session';
import { ErrorNote } from './components/ErrorNote';
import { Boundary } from './components/Boundary';
import { NotFound } from './components/NotFound';
import { useTitle } from './libs/title';

const JobList = lazy(() => import('./pages/Jobs/List').then((page) => ({ default: page.JobList })));
const JobDetail = lazy(() => import('./pages/Jobs/Detail').then((page) => ({ default: page.JobDetail })));
const Submit = lazy(() => import('./pages/Submit').then((page) => ({ default: page.Submit })));
const Nodes = lazy(() => import('./pages/Nodes').then((page) => ({ default: page.Nodes })));
const Machine = lazy(() => import('./pages/Nodes/Machine').then((page) => ({ default: page.Machine })));
const Queue = lazy(() => import('./pages/Queue').then((page) => ({ default: page.Queue })));
const Runtimes = lazy(() => import('./pages/Runtimes').then((page) => ({ default: page.Runtimes })));
const RuntimePage = lazy(() =>
  import('./pages/Runtimes/Runtime').then((page) => ({ default: page.RuntimePage })),
);
const Compare = lazy(() => import('./pages/Compare').then((page) => ({ default: page.Compare })));
const Settings = lazy(() => import('./pages/Settings').then((page) => ({ default: page.Settings })));

export function App() {
  return (
    <Routes>
      <Route path={ROUTES.login} element={<Login />} />
      <Route path="*" element={<SignedIn />} />
    </Routes>
  );
}

function SignedIn() {
  const me = useWhoAmI();
  const navigate = useNavigate();
  const location = useLocation();
  const here = location.pathname + location.search;

  useTitle(location.pathname);

  const user = me.data?.user;
  const asked = useMemo<AskedFor>(() => ({ from: here, user }), [here, user]);
  useEffect(() => whenSignedOut(() => void navigate(ROUTES.login, { state: asked })), [navigate, asked]);

  if (me.error instanceof ApiError && me.error.status !== UNREACHABLE && me.error.status < 500) {
    return <Navigate to={ROUTES.login} state={asked} replace />;
  }
  if (me.error !== null && me.data === undefined)
    return <ErrorNote error={me.error} onRetry={() => void me.refetch()} />;
  if (me.data === undefined) return <Waiting />;
  return (
    <Shell me={me.data}>
      <Boundary at={location.pathname}>
        <Suspense fallback={<Waiting />}>
          <Routes>
            <Route path="/" element={<Navigate to={ROUTES.jobs} replace />} />
            <Route path={ROUTES.jobs} element={<JobList me={me.data} />} />
            <Route path={ROUTES.job.template} element={<JobDetail />} />
            <Route path={ROUTES.submit} element={<Submit me={me.data} />} />
            <Route path={ROUTES.nodes} element={<Nodes />} />
            <Route path={ROUTES.node.template} element={<Machine />} />
            <Route path={ROUTES.queue} element={<Queue />} />
            <Route path={ROUTES.runtimes} element={<Runtimes />} />
            <Route path={ROUTES.runtime.template} element={<RuntimePage me={me.data} />} />
            <Route path={ROUTES.settings} element={<Settings me={me.data} />} />
            <Route path={ROUTES.compare} element={<Compare />} />
            <Route path="*" element={<NotFound />} />
          </Routes>
        </Suspense>
      </Boundary>
    </Shell>
  );
}

function Waiting() {
  return (
    <Center h="50vh">
      <Loader />
    </Center>
  );
}
