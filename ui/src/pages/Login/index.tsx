import { Button, Center, Paper, PasswordInput, Stack, Text, Title } from '@mantine/core';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useLocation, useNavigate } from 'react-router';

import { ROUTES } from '@/routes';
import { ApiError, UNREACHABLE } from '@/services/client';
import { useSignIn } from '@/services/session';

export function Login() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const from = (useLocation().state as { from?: string } | null)?.from ?? ROUTES.jobs;
  const [token, setToken] = useState('');
  const signIn = useSignIn();

  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.mutate(token.trim(), { onSuccess: () => void navigate(from, { replace: true }) });
  };

  return (
    <Center mih="90vh" component="main">
      <Paper withBorder p="xl" w={420} maw="95vw">
        <form onSubmit={submit}>
          <Stack>
            <Title order={1} size="h3">
              {t('app.name')}
            </Title>
            <PasswordInput
              label={t('login.token')}
              description={t('login.hint')}
              value={token}
              onChange={(event) => setToken(event.currentTarget.value)}
              error={signIn.error === null ? undefined : problem(signIn.error, t)}
              autoComplete="current-password"
              data-autofocus
              required
            />
            <Button type="submit" loading={signIn.isPending} disabled={token.trim() === ''}>
              {t('login.submit')}
            </Button>
            <Text size="xs" c="dimmed">
              {t('login.about')}
            </Text>
          </Stack>
        </form>
      </Paper>
    </Center>
  );
}

function problem(error: unknown, t: (key: 'login.unreachable' | 'login.wrong') => string): string {
  if (error instanceof ApiError && error.status === UNREACHABLE) return t('login.unreachable');
  if (error instanceof ApiError && error.status === 401) return t('login.wrong');
  return error instanceof Error ? error.message : String(error);
}
