import { Anchor, Button, CloseButton, Group, Popover, Stack, Text, TextInput } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconBookmark } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { keepViews, type View, viewIn, viewsOf, withView } from '@/libs/views';
import { ROUTES } from '@/routes';

/** Views of the list under names of one's own: filters, order and groups, each a link that can be sent to others. */
export function Views({ search, user }: { search: URLSearchParams; user: string }) {
  const { t } = useTranslation();
  const [opened, { toggle, close }] = useDisclosure();
  const [views, setViews] = useState(() => viewsOf(user));
  const [name, setName] = useState('');
  const here = viewIn(search);
  const shown = views.find((one) => one.search === here)?.name;
  const change = (next: View[]) => {
    setViews(next);
    keepViews(user, next);
  };
  return (
    <Popover opened={opened} onDismiss={close} position="bottom-end" width={300} trapFocus returnFocus>
      <Popover.Target>
        <Button
          size="sm"
          variant="default"
          leftSection={<IconBookmark size={16} />}
          aria-label={shown === undefined ? undefined : `${t('views.title')}: ${shown}`}
          onClick={toggle}
          data-views
        >
          {shown ?? t('views.title')}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          {views.length > 0 && (
            <Stack gap={4} component="ul" m={0} p={0} style={{ listStyle: 'none' }}>
              {views.map((view) => (
                <Group
                  key={view.name}
                  component="li"
                  justify="space-between"
                  wrap="nowrap"
                  data-view={view.name}
                >
                  <Anchor
                    component={Link}
                    to={`${ROUTES.jobs}?${view.search}`}
                    size="sm"
                    truncate
                    fw={view.search === here ? 600 : 400}
                    aria-current={view.search === here}
                    onClick={close}
                  >
                    {view.name}
                  </Anchor>
                  <CloseButton
                    size="sm"
                    aria-label={t('views.remove', { name: view.name })}
                    onClick={() => change(views.filter((one) => one !== view))}
                  />
                </Group>
              ))}
            </Stack>
          )}
          <form
            onSubmit={(event) => {
              event.preventDefault();
              change(withView(views, { name: name.trim(), search: here }));
              setName('');
            }}
          >
            <Group gap="xs" align="flex-end" wrap="nowrap">
              <TextInput
                size="xs"
                flex={1}
                maxLength={60}
                label={t('views.name')}
                value={name}
                onChange={(event) => setName(event.currentTarget.value)}
              />
              <Button size="xs" type="submit" disabled={name.trim() === '' || here === ''}>
                {t('action.save')}
              </Button>
            </Group>
          </form>
          <Text size="xs" c="dimmed">
            {here === '' ? t('views.nothing') : t('views.hint')}
          </Text>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
