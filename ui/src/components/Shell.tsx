import {
  ActionIcon,
  Anchor,
  AppShell,
  Avatar,
  Badge,
  Burger,
  Button,
  Group,
  Menu,
  NavLink,
  Text,
  Title,
  Tooltip,
  UnstyledButton,
  useComputedColorScheme,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure, useHotkeys } from '@mantine/hooks';
import {
  IconAdjustments,
  IconKeyboard,
  IconLanguage,
  IconLogout,
  IconMoon,
  IconSearch,
  IconSun,
} from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { useTranslation } from 'react-i18next';
import { Link, useLocation, useNavigate } from 'react-router';

import { LANGUAGES, type Language, speak } from '@/i18n';
import { useKeys } from '@/libs/keys';
import { PAGES } from '@/navigation';
import { ROUTES } from '@/routes';
import type { Schemas } from '@/services/client';
import { useConnection } from '@/services/connection';
import { useQueue } from '@/services/places';
import { useSignOut } from '@/services/session';

import { IconButton } from './IconButton';
import { Keys, KeysHelp } from './Keys';
import { openPalette, Palette } from './Palette';
import classes from './Shell.module.css';

/** The frame of every page: navigation, language, theme, the palette (Ctrl-K), and whether the server is there. */
export function Shell({ me, children }: { me: Schemas['WhoAmI']; children: ReactNode }) {
  const { t, i18n } = useTranslation();
  const navigate = useNavigate();
  const [opened, { toggle, close }] = useDisclosure();
  const [helped, help] = useDisclosure();
  const { pathname } = useLocation();
  const connected = useConnection();

  useHotkeys([['mod+K', openPalette]], []);
  useKeys({
    '/': () => document.querySelector<HTMLInputElement>('[data-search]')?.focus(),
    '?': help.open,
    ...Object.fromEntries(PAGES.map(({ keys, to }) => [keys, () => void navigate(to)])),
  });

  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 216, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding={{ base: 'sm', sm: 'lg' }}
    >
      <a className="skip" href="#content">
        {t('app.skip')}
      </a>
      <AppShell.Header className={classes.header}>
        <Group h="100%" px="md" gap="sm" wrap="nowrap">
          <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={t('nav.menu')} />
          <Anchor component={Link} to={ROUTES.jobs} underline="never" c="inherit" className={classes.brand}>
            <img src="/favicon.svg" alt="" width={24} height={24} />
            <Title order={1} size="h4">
              {t('app.name')}
            </Title>
          </Anchor>
          {!connected && (
            <Badge color="orange" role="status" style={{ flexShrink: 1 }}>
              {t('app.reconnecting')}
            </Badge>
          )}
          <Group ml="auto" gap={6} wrap="nowrap">
            <UnstyledButton className={classes.search} onClick={openPalette} aria-label={t('nav.palette')}>
              <IconSearch size={15} />
              <Text component="span" fz="inherit" flex={1}>
                {t('nav.find')}
              </Text>
              <Keys of="Ctrl K" />
            </UnstyledButton>
            <Looks />
            <Account me={me} onKeys={help.open} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="sm" component="nav" aria-label={t('nav.pages')} className={classes.side}>
        {PAGES.map(({ key, to, icon: Icon }) => (
          <NavLink
            key={key}
            component={Link}
            to={to}
            label={t(`nav.${key}`)}
            leftSection={<Icon size={18} stroke={1.5} />}
            rightSection={key === 'queue' ? <Waiting /> : undefined}
            active={pathname.startsWith(to)}
            aria-current={pathname.startsWith(to) ? 'page' : undefined}
            className={classes.link}
            onClick={close}
          />
        ))}
        <Group hiddenFrom="sm" mt="auto" gap="xs">
          {Object.entries(LANGUAGES).map(([value, label]) => (
            <Button
              key={value}
              size="xs"
              lang={value}
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
      <KeysHelp opened={helped} onClose={help.close} />
    </AppShell>
  );
}

/** The language and the colours. */
function Looks() {
  const { t, i18n } = useTranslation();
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  return (
    <>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <Tooltip label={t('nav.language')}>
            <ActionIcon
              variant="subtle"
              color="gray"
              size="lg"
              aria-label={t('nav.language')}
              visibleFrom="sm"
            >
              <IconLanguage size={18} stroke={1.5} />
            </ActionIcon>
          </Tooltip>
        </Menu.Target>
        <Menu.Dropdown>
          {Object.entries(LANGUAGES).map(([value, label]) => (
            <Menu.Item
              key={value}
              lang={value}
              fw={value === i18n.language ? 600 : undefined}
              onClick={() => speak(value as Language)}
            >
              {label}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <IconButton
        label={t('nav.theme')}
        size="lg"
        onClick={() => setColorScheme(scheme === 'dark' ? 'light' : 'dark')}
      >
        {scheme === 'dark' ? <IconSun size={18} stroke={1.5} /> : <IconMoon size={18} stroke={1.5} />}
      </IconButton>
    </>
  );
}

/** How many jobs wait, beside the page that says why. */
function Waiting() {
  const { t } = useTranslation();
  const queue = useQueue();
  const count = (queue.data?.items.length ?? 0) + (queue.data?.hidden ?? 0);
  if (count === 0) return null;
  return (
    <Badge size="sm" color="gray" aria-label={t('nav.waiting', { count })}>
      {count}
    </Badge>
  );
}

/** Who one is, and what goes with it. */
function Account({ me, onKeys }: { me: Schemas['WhoAmI']; onKeys: () => void }) {
  const { t } = useTranslation();
  const signOut = useSignOut();
  return (
    <Menu position="bottom-end" width={220}>
      <Menu.Target>
        <UnstyledButton aria-label={t('nav.account', { user: me.user })} ml={4}>
          <Avatar size={30} radius="xl" color="indigo" aria-hidden>
            {me.user.slice(0, 2).toUpperCase()}
          </Avatar>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Group px="sm" py={6} gap={8} wrap="nowrap">
          <Text size="sm" fw={600} truncate>
            {me.user}
          </Text>
          <Badge size="sm" color="gray" ml="auto" flex="none">
            {me.admin ? t('settings.admin') : t('settings.member')}
          </Badge>
        </Group>
        <Menu.Divider />
        <Menu.Item
          component={Link}
          to={ROUTES.settings}
          leftSection={<IconAdjustments size={16} stroke={1.5} />}
        >
          {t('nav.settings')}
        </Menu.Item>
        <Menu.Item
          leftSection={<IconKeyboard size={16} stroke={1.5} />}
          rightSection={<Keys of="?" />}
          onClick={onKeys}
        >
          {t('keys.title')}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} stroke={1.5} />} onClick={() => signOut.mutate()}>
          {t('nav.logout')}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
