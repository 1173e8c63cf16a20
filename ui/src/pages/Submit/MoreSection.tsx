import {
  Accordion,
  ActionIcon,
  Button,
  Checkbox,
  Group,
  NumberInput,
  Select,
  Stack,
  TextInput,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { IconPlus, IconTrash } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { useClaims } from '@/services/places';

import type { Form } from './form';

/** What most jobs do not need: environment, volumes, limits on time and restarts. */
export function MoreSection({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  return (
    <Accordion variant="contained" multiple>
      <Accordion.Item value="environment">
        <Accordion.Control>
          {t('submit.environment')} ({form.values.environment.length})
        </Accordion.Control>
        <Accordion.Panel>
          <Environment form={form} />
        </Accordion.Panel>
      </Accordion.Item>
      <Accordion.Item value="volumes">
        <Accordion.Control>
          {t('submit.volumes')} ({form.values.volumes.length})
        </Accordion.Control>
        <Accordion.Panel>
          <Volumes form={form} />
        </Accordion.Panel>
      </Accordion.Item>
      <Accordion.Item value="limits">
        <Accordion.Control>{t('submit.limits')}</Accordion.Control>
        <Accordion.Panel>
          <Group grow align="flex-start">
            <NumberInput
              label={t('submit.maxRestarts')}
              min={0}
              max={1000}
              allowDecimal={false}
              {...form.getInputProps('maxRestarts')}
            />
            <NumberInput
              label={t('submit.ttl')}
              min={0}
              allowDecimal={false}
              {...form.getInputProps('ttlSeconds')}
            />
            <NumberInput
              label={t('submit.deadline')}
              min={1}
              allowDecimal={false}
              {...form.getInputProps('deadlineSeconds')}
            />
            <NumberInput
              label={t('submit.priority')}
              allowDecimal={false}
              {...form.getInputProps('priority')}
            />
          </Group>
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}

function Environment({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  return (
    <Stack gap="xs">
      {form.values.environment.map((_, index) => (
        <Group key={index} gap="xs" wrap="nowrap">
          <TextInput
            flex={1}
            aria-label={t('submit.variable')}
            placeholder="EPOCHS"
            {...form.getInputProps(`environment.${index}.name`)}
          />
          <TextInput
            flex={2}
            aria-label={t('submit.value')}
            placeholder="10"
            {...form.getInputProps(`environment.${index}.value`)}
          />
          <ActionIcon
            variant="subtle"
            color="red"
            aria-label={t('action.remove')}
            onClick={() => form.removeListItem('environment', index)}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </Group>
      ))}
      <Group>
        <Button
          size="xs"
          variant="light"
          leftSection={<IconPlus size={14} />}
          onClick={() => form.insertListItem('environment', { name: '', value: '' })}
        >
          {t('submit.addVariable')}
        </Button>
      </Group>
    </Stack>
  );
}

function Volumes({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const claims = useClaims(form.values.namespace);
  return (
    <Stack gap="xs">
      {form.values.volumes.map((_, index) => (
        <Group key={index} gap="xs" wrap="nowrap" align="flex-end">
          <TextInput
            flex={1}
            label={t('submit.volumeName')}
            placeholder="dataset"
            {...form.getInputProps(`volumes.${index}.name`)}
          />
          <Select
            flex={1}
            label={t('submit.claim')}
            data={(claims.data ?? []).map((claim) => claim.name)}
            searchable
            nothingFoundMessage={t('submit.noClaims')}
            {...form.getInputProps(`volumes.${index}.pvc`)}
          />
          <TextInput
            flex={1}
            label={t('submit.mountPath')}
            placeholder="/data"
            {...form.getInputProps(`volumes.${index}.mountPath`)}
          />
          <Checkbox
            mb={10}
            label={t('submit.readOnly')}
            {...form.getInputProps(`volumes.${index}.readOnly`, { type: 'checkbox' })}
          />
          <ActionIcon
            mb={4}
            variant="subtle"
            color="red"
            aria-label={t('action.remove')}
            onClick={() => form.removeListItem('volumes', index)}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </Group>
      ))}
      <Group align="flex-end">
        <Button
          size="xs"
          variant="light"
          leftSection={<IconPlus size={14} />}
          onClick={() =>
            form.insertListItem('volumes', { name: '', pvc: '', mountPath: '', readOnly: false })
          }
        >
          {t('submit.addVolume')}
        </Button>
        <NumberInput
          w={240}
          label={t('submit.sharedMemory')}
          min={0}
          step={1}
          {...form.getInputProps('sharedMemory')}
        />
      </Group>
    </Stack>
  );
}
