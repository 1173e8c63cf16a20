import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '@mantine/spotlight/styles.css';
import './i18n';
import './page.css';

import { MantineProvider } from '@mantine/core';
import { ModalsProvider } from '@mantine/modals';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { BrowserRouter } from 'react-router';

import { App } from './App';
import { Boundary } from './components/Boundary';
import { ApiError } from './services/client';
import { isLost } from './services/connection';
import { theme, variables } from './theme';

/** How long until a server that did not answer is asked again. */
const AGAIN = 5_000;

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // The server said no: asking again will not help. Only a lost connection is worth another try.
      retry: (failures, error) =>
        failures < 3 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      staleTime: 2_000,
      // What is not asked for from time to time anyway would stand as failed when the server is back.
      refetchInterval: (query) => isLost(query.state.error) && AGAIN,
    },
  },
});

// Versions up to 0.2 kept these for whoever signed in next.
for (const key of ['astrago.last-request', 'astrago.images']) localStorage.removeItem(key);

const root = document.getElementById('root');
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto">
        <QueryClientProvider client={queries}>
          <ModalsProvider modalProps={{ attributes: { header: { role: 'presentation' } } }}>
            <Notifications position="top-right" />
            <BrowserRouter>
              <Boundary at="">
                <App />
              </Boundary>
            </BrowserRouter>
          </ModalsProvider>
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}
