import {
  Group,
  NumberInput,
  Radio,
  SegmentedControl,
  Select,
  SimpleGrid,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useTranslation } from 'react-i18next';

import { Section } from '@/components/Section';
import { byMpi, frameworksOf, runtimeOf } from '@/libs/frameworks';
import { useNamespaces, useRuntimes } from '@/services/places';

import type { Form } from './form';

/** What kind of training, on how many nodes, under which name. */
export function FrameworkSection({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const namespaces = useNamespaces();
  const runtimes = useRuntimes().data;
  const launcher = runtimeOf(form.values, runtimes)?.launcher === true;
  return (
    <Section title={t('submit.type')}>
      <Stack>
        <Radio.Group
          label={t('submit.framework')}
          error={form.errors['framework']}
          value={form.values.framework}
          // A runtime that was picked for another framework would not run this one.
          onChange={(value) => form.setValues({ framework: value, runtime: '' })}
        >
          <SimpleGrid cols={{ base: 2, xs: 3, xl: 4 }} mt={6} spacing="xs">
            {frameworksOf(runtimes).map((one) => (
              <Radio.Card
                key={one.framework}
                value={one.framework}
                px="sm"
                py={8}
                radius="md"
                aria-label={one.title}
              >
                <Group wrap="nowrap" gap="xs" align="flex-start">
                  <Radio.Indicator mt={2} />
                  <div>
                    <Text size="sm" fw={600}>
                      {one.title}
                    </Text>
                    <Text size="xs" c="dimmed">
                      {byMpi(one) ? 'MPI' : 'Training Operator'}
                    </Text>
                  </div>
                </Group>
              </Radio.Card>
            ))}
          </SimpleGrid>
        </Radio.Group>
        <Group align="flex-end" mih={60}>
          <SegmentedControl
            aria-label={t('submit.nodesMode')}
            data={[
              { value: 'single', label: launcher ? t('submit.singleWorker') : t('submit.single') },
              { value: 'multi', label: launcher ? t('submit.multiWorker') : t('submit.multi') },
            ]}
            value={form.values.multiNode ? 'multi' : 'single'}
            onChange={(value) => form.setFieldValue('multiNode', value === 'multi')}
          />
          {form.values.multiNode && (
            <NumberInput
              w={140}
              label={launcher ? t('submit.workers') : t('submit.nodes')}
              min={1}
              max={1000}
              allowDecimal={false}
              {...form.getInputProps('num_nodes')}
            />
          )}
        </Group>
        <SimpleGrid cols={{ base: 1, xs: 2 }}>
          <TextInput
            label={t('submit.name')}
            description={t('submit.nameHint')}
            {...form.getInputProps('name')}
          />
          <Select
            label={t('submit.namespace')}
            description={t('submit.namespaceHint')}
            data={[
              ...new Set([form.values.namespace, ...(namespaces.data ?? []).map((one) => one.name)]),
            ].filter((one) => one !== '')}
            searchable
            allowDeselect={false}
            {...form.getInputProps('namespace')}
          />
        </SimpleGrid>
      </Stack>
    </Section>
  );
}
