import { useDebouncedValue } from '@mantine/hooks';
import { Spotlight, spotlight } from '@mantine/spotlight';
import { IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { useNavigate } from 'react-router';

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
  const found = (jobs.data?.items ?? []).filter(
    (job) => wanted === '' || settled !== '' || job.name.includes(wanted),
  );
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
      />
      <Spotlight.ActionsList {...SCROLLED_BY_KEYS}>
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
                rightSection={<StateBadge state={job.state} />}
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
