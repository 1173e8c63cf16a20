import { useDebouncedValue } from '@mantine/hooks';
import { Spotlight, spotlight } from '@mantine/spotlight';
import { IconSearch } from '@tabler/icons-react';
import { useEffect, useRef, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';

import { shownState } from '@/libs/state';
import { PAGES } from '@/navigation';
import { ROUTES } from '@/routes';
import { useJobs } from '@/services/jobs';

import { Keys } from './Keys';
import { StateBadge } from './StateBadge';

/**
 * Actions are reached with the arrows, so that of a long list only the whole can have the focus. An `object`, as the
 * component's type leaves out what it passes on to its scroll area.
 */
const SCROLLED_BY_KEYS: object = { viewportProps: { tabIndex: 0 } };

/** Goes to any page and any job by a few letters of its name; jobs are looked for on the server, however many there are. */
export function Palette() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const [query, setQuery] = useState('');
  const [settled] = useDebouncedValue(query.trim(), 150);
  const jobs = useJobs({ ...(settled !== '' && { q: settled }), limit: 4 });
  const wanted = query.trim().toLowerCase();
  const pages = PAGES.filter(({ key }) => t(`nav.${key}`).toLowerCase().includes(wanted));
  // Until the answer to what is typed is there, what is known of the one before.
  const pending = query.trim() !== settled || jobs.isPlaceholderData || jobs.isPending;
  const found = (jobs.data?.items ?? []).filter((job) => !pending || job.name.includes(wanted));

  // The first is chosen as soon as it is there; Enter that came before it counts.
  const list = useRef<HTMLDivElement>(null);
  const entered = useRef<string>(undefined);
  const shown = [...pages.map((page) => page.key), ...found.map((job) => job.uid)].join(' ');
  useEffect(() => {
    const first = list.current?.querySelector<HTMLElement>('[data-action]');
    if (first == null || list.current?.querySelector('[data-selected]') != null) return;
    first.setAttribute('data-selected', 'true');
    if (entered.current === query.trim() && !pending) first.click();
  }, [shown, pending, query]);
  return (
    <Spotlight.Root
      query={query}
      onQueryChange={setQuery}
      shortcut={null}
      attributes={{ content: { 'aria-label': t('nav.palette') } }}
    >
      <Spotlight.Search
        placeholder={t('nav.palette')}
        aria-label={t('nav.palette')}
        leftSection={<IconSearch size={18} />}
        onKeyDown={(event) => {
          const chosen = list.current?.querySelector('[data-selected]') != null;
          entered.current = event.key === 'Enter' && !chosen ? query.trim() : undefined;
        }}
      />
      <Spotlight.ActionsList ref={list} {...SCROLLED_BY_KEYS}>
        {pages.length > 0 && (
          <Spotlight.ActionsGroup label={t('nav.pages')}>
            {pages.map(({ key, to, icon: Icon, keys }) => (
              <Spotlight.Action
                key={key}
                label={t(`nav.${key}`)}
                leftSection={<Icon size={18} stroke={1.5} />}
                rightSection={<Keys of={keys} />}
                onClick={() => void navigate(to)}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {found.length > 0 && (
          <Spotlight.ActionsGroup label={t('nav.jobs')}>
            {found.map((job) => (
              <Spotlight.Action
                key={job.uid}
                label={job.name}
                description={job.namespace}
                rightSection={<StateBadge state={shownState(job)} />}
                onClick={() => void navigate(ROUTES.job.path(job.namespace, job.name))}
              />
            ))}
          </Spotlight.ActionsGroup>
        )}
        {pages.length === 0 && found.length === 0 && <Spotlight.Empty>{t('nav.nothing')}</Spotlight.Empty>}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

export const openPalette = () => spotlight.open();
