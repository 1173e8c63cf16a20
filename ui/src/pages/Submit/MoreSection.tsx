import {
  Accordion,
  ActionIcon,
  Button,
  Checkbox,
  Group,
  NumberInput,
  Select,
  SimpleGrid,
  Stack,
  Switch,
  Text,
  TextInput,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { type ReactNode, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { duration } from '@/libs/time';
import { useClaims, usePriorities } from '@/services/places';

import type { Form } from './form';
import { NewClaim } from './NewClaim';

type Props = { form: UseFormReturnType<Form> };

const LIMITS = ['max_restarts', 'ttl_seconds_after_finished', 'deadline_seconds', 'priority'];

/** What most jobs do not need: environment, volumes, checkpoints, limits on time and restarts, where it may run. */
export function MoreSection({ form }: Props) {
  const { t } = useTranslation();
  const { env_vars, volumes, node_selector, checkpoint } = form.values;
  const counted = (word: string, count: number) => (count === 0 ? word : `${word} (${count})`);
  const [opened, setOpened] = useState<string[]>([]);
  // A section with a mistake in it is never shut.
  const wrong = Object.keys(form.errors).flatMap((field) => {
    if (field.startsWith('env_vars')) return ['environment'];
    if (field.startsWith('volumes') || field === 'sharedMemory') return ['volumes'];
    if (field === 'checkpoint_size') return ['checkpoint'];
    return LIMITS.includes(field) ? ['limits'] : [];
  });
  return (
    <Accordion variant="contained" multiple value={[...new Set([...opened, ...wrong])]} onChange={setOpened}>
      <Section value="environment" title={counted(t('submit.environment'), env_vars.length)}>
        <Pairs form={form} list="env_vars" add={t('submit.addVariable')} example={['EPOCHS', '10']} />
      </Section>
      <Section value="volumes" title={counted(t('submit.volumes'), volumes.length)}>
        <Volumes form={form} />
      </Section>
      <Section value="checkpoint" title={t('submit.checkpoints')}>
        <Stack gap="sm">
          <Switch
            label={t('submit.checkpoint')}
            description={t('submit.checkpointHint')}
            {...form.getInputProps('checkpoint', { type: 'checkbox' })}
          />
          {checkpoint && (
            <NumberInput
              w={240}
              label={t('submit.checkpointSize')}
              min={1}
              {...form.getInputProps('checkpoint_size')}
            />
          )}
        </Stack>
      </Section>
      <Section value="limits" title={t('submit.limits')}>
        <Limits form={form} />
      </Section>
      <Section value="selector" title={counted(t('submit.selector'), node_selector.length)}>
        <Text size="sm" c="dimmed" mb="xs">
          {t('submit.selectorHint')}
        </Text>
        <Pairs
          form={form}
          list="node_selector"
          add={t('submit.addLabel')}
          example={['node.kubernetes.io/instance-type', 'p4d.24xlarge']}
        />
      </Section>
    </Accordion>
  );
}

function Section(props: { value: string; title: string; children: ReactNode }) {
  return (
    <Accordion.Item value={props.value}>
      <Accordion.Control>{props.title}</Accordion.Control>
      <Accordion.Panel>{props.children}</Accordion.Panel>
    </Accordion.Item>
  );
}

function Limits({ form }: Props) {
  const { t } = useTranslation();
  const { ttl_seconds_after_finished: ttl, deadline_seconds: deadline } = form.values;
  const priorities = usePriorities();
  const inWords = (seconds: number | '') =>
    seconds === '' ? t('submit.asRuntime') : duration(seconds * 1000);
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <NumberInput
        label={t('submit.maxRestarts')}
        description={t('submit.maxRestartsHint')}
        min={0}
        allowDecimal={false}
        {...form.getInputProps('max_restarts')}
      />
      <div>
        <NumberInput
          label={t('submit.priority')}
          description={t('submit.priorityHint')}
          allowDecimal={false}
          {...form.getInputProps('priority')}
        />
        {(priorities.data ?? []).length > 0 && (
          <Group gap={4} mt={6}>
            {priorities.data?.map(({ name, value, description }) => (
              <Button
                key={name}
                size="compact-xs"
                variant={form.values.priority === value ? 'filled' : 'default'}
                title={description ?? undefined}
                onClick={() => form.setFieldValue('priority', value)}
              >
                {name} {value}
              </Button>
            ))}
          </Group>
        )}
      </div>
      <NumberInput
        label={t('submit.ttl')}
        description={inWords(ttl)}
        min={0}
        step={3600}
        allowDecimal={false}
        {...form.getInputProps('ttl_seconds_after_finished')}
      />
      <NumberInput
        label={t('submit.deadline')}
        description={deadline === '' ? t('submit.noDeadline') : inWords(deadline)}
        min={1}
        step={3600}
        allowDecimal={false}
        {...form.getInputProps('deadline_seconds')}
      />
    </SimpleGrid>
  );
}

/** Rows of a name and a value. */
function Pairs({
  form,
  list,
  add,
  example,
}: Props & { list: 'env_vars' | 'node_selector'; add: string; example: [string, string] }) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs">
      {form.values[list].map((_, index) => (
        <Group key={index} gap="xs" wrap="nowrap" align="flex-start">
          <TextInput
            flex={1}
            aria-label={t('submit.variable')}
            placeholder={example[0]}
            {...form.getInputProps(`${list}.${index}.name`)}
          />
          <TextInput
            flex={2}
            aria-label={t('submit.value')}
            placeholder={example[1]}
            {...form.getInputProps(`${list}.${index}.value`)}
          />
          <Remove onClick={() => form.removeListItem(list, index)} />
        </Group>
      ))}
      <Group>
        <Button
          size="xs"
          variant="light"
          leftSection={<IconPlus size={14} />}
          onClick={() => form.insertListItem(list, { name: '', value: '' })}
        >
          {add}
        </Button>
      </Group>
    </Stack>
  );
}

function Remove({ onClick }: { onClick: () => void }) {
  const { t } = useTranslation();
  return (
    <ActionIcon mt={4} variant="subtle" color="red" aria-label={t('action.remove')} onClick={onClick}>
      <IconTrash size={16} />
    </ActionIcon>
  );
}

function Volumes({ form }: Props) {
  const { t } = useTranslation();
  const claims = useClaims(form.values.namespace);
  const add = (pvc: string) =>
    form.insertListItem('volumes', {
      name: pvc,
      pvc,
      mountPath: pvc === '' ? '' : `/mnt/${pvc}`,
      readOnly: false,
    });
  return (
    <Stack gap="xs">
      {form.values.volumes.map((volume, index) => (
        <Group key={index} gap="xs" align="flex-start" wrap="nowrap">
          <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="xs" flex={1}>
            <TextInput
              label={t('submit.volumeName')}
              placeholder="dataset"
              {...form.getInputProps(`volumes.${index}.name`)}
            />
            {volume.pvc == null ? (
              <TextInput
                label={t('submit.source')}
                value={volume.configMap ?? volume.hostPath ?? volume.memory ?? ''}
                readOnly
              />
            ) : (
              <Select
                label={t('submit.claim')}
                data={[
                  ...new Set([...(claims.data ?? []).map((claim) => claim.name), volume.pvc].filter(Boolean)),
                ]}
                searchable
                nothingFoundMessage={t('submit.noClaims')}
                {...form.getInputProps(`volumes.${index}.pvc`)}
              />
            )}
            <TextInput
              label={t('submit.mountPath')}
              placeholder="/data"
              {...form.getInputProps(`volumes.${index}.mountPath`)}
            />
            <Checkbox
              label={t('submit.readOnly')}
              {...form.getInputProps(`volumes.${index}.readOnly`, { type: 'checkbox' })}
            />
          </SimpleGrid>
          <Remove onClick={() => form.removeListItem('volumes', index)} />
        </Group>
      ))}
      <Group align="flex-end">
        <Button size="xs" variant="light" leftSection={<IconPlus size={14} />} onClick={() => add('')}>
          {t('submit.addVolume')}
        </Button>
        <NewClaim namespace={form.values.namespace} onMade={add} />
      </Group>
      <NumberInput
        w={300}
        label={t('submit.sharedMemory')}
        min={0}
        step={1}
        {...form.getInputProps('sharedMemory')}
      />
    </Stack>
  );
}
