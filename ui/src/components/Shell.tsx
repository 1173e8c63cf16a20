import {
  ActionIcon,
  Anchor,
  AppShell,
  Badge,
  Burger,
  Button,
  Group,
  NavLink,
  Select,
  Text,
  Title,
  Tooltip,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import { Spotlight, spotlight } from '@mantine/spotlight';
import {
  IconAdjustments,
  IconLayoutList,
  IconListNumbers,
  IconLogout,
  IconMoon,
  IconPackages,
  IconPlus,
  IconSearch,
  IconServer,
  IconSun,
} from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useLocation, useNavigate } from 'react-router';

import { LANGUAGES, type Language, speak } from '@/i18n';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useConnection } from '@/services/connection';
import { useJobs } from '@/services/jobs';
import { useSignOut } from '@/services/session';

const PAGES = [
  { key: 'jobs', to: ROUTES.jobs, icon: IconLayoutList },
  { key: 'submit', to: ROUTES.submit, icon: IconPlus },
  { key: 'queue', to: ROUTES.queue, icon: IconListNumbers },
  { key: 'nodes', to: ROUTES.nodes, icon: IconServer },
  { key: 'runtimes', to: ROUTES.runtimes, icon: IconPackages },
  { key: 'settings', to: ROUTES.settings, icon: IconAdjustments },
] as const;

/** The frame of every page: navigation, language, theme, the palette (Ctrl-K), and whether the server is there. */
export function Shell({ me, children }: { me: Schemas['WhoAmI']; children: ReactNode }) {
  const { t, i18n } = useTranslation();
  const [opened, { toggle, close }] = useDisclosure();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  const { pathname } = useLocation();
  const connected = useConnection();
  const signOut = useSignOut();

  useHotkeys([
    ['/', () => document.querySelector<HTMLInputElement>('[data-search]')?.focus()],
    ['mod+K', () => spotlight.open()],
  ]);

  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 220, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding="md"
    >
      <a className="skip" href="#content">
        {t('app.skip')}
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" gap="sm" wrap="nowrap">
          <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t('nav.menu')} />
          <Anchor component={Link} to={ROUTES.jobs} underline="never" c="inherit">
            <Title order={1} size="h4" style={{ whiteSpace: 'nowrap' }}>
              {t('app.name')}
            </Title>
          </Anchor>
          {!connected && (
            <Badge color="orange" variant="light" tt="none" role="status" style={{ flexShrink: 1 }}>
              {t('app.reconnecting')}
            </Badge>
          )}
          <Group ml="auto" gap="xs" wrap="nowrap">
            <Button
              variant="default"
              size="xs"
              leftSection={<IconSearch size={14} />}
              onClick={() => spotlight.open()}
              visibleFrom="sm"
              aria-label={t('nav.palette')}
            >
              Ctrl K
            </Button>
            <Select
              size="xs"
              w={104}
              visibleFrom="sm"
              aria-label={t('nav.language')}
              data={Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))}
              value={i18n.language}
              onChange={(value) => value !== null && speak(value as Language)}
              allowDeselect={false}
            />
            <Tooltip label={t('nav.theme')}>
              <ActionIcon
                variant="default"
                aria-label={t('nav.theme')}
                onClick={() => setColorScheme(scheme === 'dark' ? 'light' : 'dark')}
              >
                {scheme === 'dark' ? <IconSun size={16} /> : <IconMoon size={16} />}
              </ActionIcon>
            </Tooltip>
            <Text size="sm" visibleFrom="sm">
              {me.user}
            </Text>
            <Tooltip label={t('nav.logout')}>
              <ActionIcon variant="default" aria-label={t('nav.logout')} onClick={() => signOut.mutate()}>
                <IconLogout size={16} />
              </ActionIcon>
            </Tooltip>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" component="nav">
        {PAGES.map(({ key, to, icon: Icon }) => (
          <NavLink
            key={key}
            component={Link}
            to={to}
            label={t(`nav.${key}`)}
            leftSection={<Icon size={18} />}
            active={pathname.startsWith(to)}
            onClick={close}
          />
        ))}
        <Group hiddenFrom="sm" p="sm" mt="auto" gap="xs">
          {Object.entries(LANGUAGES).map(([value, label]) => (
            <Button
              key={value}
              size="xs"
              variant={value === i18n.language ? 'filled' : 'default'}
              aria-pressed={value === i18n.language}
              onClick={() => speak(value as Language)}
            >
              {label}
            </Button>
          ))}
        </Group>
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        {children}
      </AppShell.Main>
      <Palette />
    </AppShell>
  );
}

function Palette() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const jobs = useJobs({});
  const pages = PAGES.map(({ key, to, icon: Icon }) => ({
    id: key,
    label: t(`nav.${key}`),
    leftSection: <Icon size={18} />,
    onClick: () => void navigate(to),
  }));
  const recent = (jobs.data?.items ?? []).map((job) => ({
    id: job.uid,
    label: job.name,
    description: `${job.namespace} · ${t(`state.${job.state}`)}`,
    onClick: () => void navigate(ROUTES.job.path(job.namespace, job.name)),
  }));
  return (
    <Spotlight
      actions={[...pages, ...recent]}
      limit={10}
      shortcut={null}
      attributes={{ content: { 'aria-label': t('nav.palette') } }}
      searchProps={{ placeholder: t('nav.palette'), 'aria-label': t('nav.palette') }}
    />
  );
}
