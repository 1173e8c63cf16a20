import { Button, Center, Divider, Paper, PasswordInput, Stack, Text, Title } from '@mantine/core';
import { IconBuilding } from '@tabler/icons-react';
import { type FormEvent, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useLocation, useNavigate } from 'react-router';

import { useProblem } from '@/libs/saying';
import { ROUTES } from '@/routes';
import { ApiError } from '@/services/client';
import { providerUrl, useSignIn, useSignInMethods } from '@/services/session';

/** The page that was asked for before signing in, and who had it open when their session ended. */
export interface AskedFor {
  from: string;
  user: string | undefined;
}

/** Signing in: with the organisation's provider where the server has one, and with a token. */
export function Login() {
  const { t } = useTranslation();
  const asked = useLocation().state as AskedFor | null;
  const methods = useSignInMethods();
  const provider = methods.data?.oidc ?? false;
  const token = methods.data?.token ?? true;
  return (
    <Center mih="100dvh" component="main" bg="var(--page-side)">
      <Paper withBorder p="xl" w={400} maw="95vw" radius="lg" shadow="sm" bg="var(--page-raised)">
        <Stack>
          <Stack gap={4} align="center" mb="xs">
            <img src="/favicon.svg" alt="" width={44} height={44} />
            <Title order={1} size="h3" mt="xs">
              {t('app.name')}
            </Title>
            <Text size="sm" c="dimmed" ta="center">
              {t('login.about')}
            </Text>
          </Stack>
          {provider && (
            <Button
              component="a"
              href={providerUrl(asked?.from ?? ROUTES.jobs)}
              leftSection={<IconBuilding size={16} />}
            >
              {t('login.provider')}
            </Button>
          )}
          {provider && token && <Divider label={t('login.or')} />}
          {token && <TokenForm asked={asked} quiet={provider} />}
        </Stack>
      </Paper>
    </Center>
  );
}

function TokenForm({ asked, quiet }: { asked: AskedFor | null; quiet: boolean }) {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [token, setToken] = useState('');
  const signIn = useSignIn();
  const problem = useProblem();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    signIn.mutate(token.trim(), {
      onSuccess: ({ user }) => {
        // A page of somebody else is not where one begins.
        const own = asked !== null && (asked.user === undefined || asked.user === user);
        void navigate(own ? asked.from : ROUTES.jobs, { replace: true });
      },
    });
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <PasswordInput
          label={t('login.token')}
          description={quiet ? undefined : t('login.hint')}
          inputWrapperOrder={['label', 'input', 'error', 'description']}
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          error={
            signIn.error === null ? undefined : wrong(signIn.error) ? t('login.wrong') : problem(signIn.error)
          }
          autoComplete="current-password"
          visibilityToggleButtonProps={{ 'aria-label': t('login.show') }}
          data-autofocus
          required
          withAsterisk={false}
        />
        <Button
          type="submit"
          variant={quiet ? 'default' : 'filled'}
          loading={signIn.isPending}
          disabled={token.trim() === ''}
        >
          {t('login.submit')}
        </Button>
      </Stack>
    </form>
  );
}

function wrong(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}
