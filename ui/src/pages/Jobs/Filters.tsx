import { Pill, Select, Switch, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';

import { Keys } from '@/components/Keys';
import { GROUPINGS } from '@/libs/groups';
import { STATES } from '@/libs/state';
import { ROUTES } from '@/routes';
import { useFrameworks } from '@/services/places';

/** Filters that come from a link elsewhere, and can only be taken away here. */
export const PILLS = ['namespace', 'user', 'runtime', 'tag', 'machine'] as const;

type Setter = (key: string, value: string | null) => void;

/** What of the jobs is shown, besides the text that is looked for. */
export function Filters({ search, set }: { search: URLSearchParams; set: Setter }) {
  const { t } = useTranslation();
  const frameworks = useFrameworks();
  const choices = [
    {
      key: 'state',
      label: t('jobs.state'),
      any: t('jobs.anyState'),
      data: STATES.map((one) => ({ value: one as string, label: t(`state.${one}`) })),
    },
    {
      key: 'framework',
      label: t('submit.framework'),
      any: t('jobs.anyFramework'),
      data: frameworks.map((one) => ({ value: one.framework, label: one.title })),
    },
    {
      key: 'group',
      label: t('jobs.group'),
      any: t('jobs.group'),
      data: GROUPINGS.map((one) => ({ value: one as string, label: t(`jobs.groupBy.${one}`) })),
    },
  ];
  return (
    <>
      {choices.map(({ key, label, any, data }) => (
        <Select
          key={key}
          w={{ base: 'calc(50% - 4px)', xs: 155 }}
          size="sm"
          placeholder={any}
          aria-label={label}
          clearable
          // Cards stand in order, without headings between them.
          {...(key === 'group' && { visibleFrom: 'sm' })}
          data={data}
          // The address may say anything.
          value={data.find((one) => one.value === search.get(key))?.value ?? null}
          onChange={(value) => set(key, value)}
        />
      ))}
      {(['mine', 'history'] as const).map((key) => (
        <Switch
          key={key}
          size="xs"
          ml={4}
          label={t(`jobs.${key}`)}
          checked={search.has(key)}
          onChange={(event) => set(key, event.currentTarget.checked ? '1' : null)}
        />
      ))}
      {PILLS.filter((key) => search.has(key)).map((key) => (
        <Pill
          key={key}
          withRemoveButton
          removeButtonProps={{
            'aria-label': t('jobs.without.filter', { name: search.get(key) }),
            'aria-hidden': false,
            tabIndex: 0,
          }}
          onRemove={() => set(key, null)}
          data-pill={key}
        >
          {t(`jobs.pill.${key}`)}: {search.get(key)}
        </Pill>
      ))}
    </>
  );
}

/**
 * The text is kept here and goes into the address when typing pauses: the address is too slow to type into, and the list
 * to be drawn at every key.
 */
export function Search(props: { text: string; narrow: boolean; onLook: (text: string) => void }) {
  const { text, narrow, onLook } = props;
  const { t } = useTranslation();
  const [typed, setTyped] = useState(text);
  const look = useDebouncedCallback((value: string) => {
    // Whoever has gone on to a job meanwhile is not called back.
    if (window.location.pathname === ROUTES.jobs) onLook(value);
  }, 200);
  return (
    <TextInput
      data-search
      size="sm"
      w={{ base: '100%', xs: 280 }}
      placeholder={t('jobs.search')}
      aria-label={t('jobs.search')}
      leftSection={<IconSearch size={15} />}
      rightSection={narrow ? undefined : <Keys of="/" />}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        look(event.currentTarget.value);
      }}
    />
  );
}
