import { Grid, NumberInput, Radio, SimpleGrid, Slider, Stack, Text } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useTranslation } from 'react-i18next';

import { Section } from '@/components/Section';
import { amounts } from '@/libs/amounts';
import { runtimeOf } from '@/libs/frameworks';
import { useNodes, useRuntimes } from '@/services/places';

import type { Form } from './form';
import { largest, PRESETS, presetsOf, stepOf } from './sizes';

/** How much of a machine each node gets, requests and limits; with MPI the launcher and the workers each. */
export function ResourceSection({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const launcher = runtimeOf(form.values, useRuntimes().data)?.launcher === true;
  const machines = useNodes().data;
  const { cpu_request, memory_request, gpu_count, cpu_limit, memory_limit, multiNode, num_nodes } =
    form.values;
  const most = largest(machines);
  const presets = presetsOf(machines, multiNode ? num_nodes : 1);
  const chosen = PRESETS.find((one) => {
    const size = presets[one];
    return (
      size.gpu === gpu_count &&
      [cpu_request, cpu_limit].every((value) => value === size.cpu) &&
      [memory_request, memory_limit].every((value) => value === size.memory)
    );
  });
  const pick = (preset: string) => {
    const size = PRESETS.find((one) => one === preset);
    if (size === undefined) return;
    const { cpu, memory, gpu } = presets[size];
    form.setValues({
      gpu_count: gpu,
      cpu_request: cpu,
      cpu_limit: cpu,
      memory_request: memory,
      memory_limit: memory,
    });
  };
  return (
    <>
      {launcher && (
        <Section title={t('submit.launcher')} hint={t('submit.launcherHint')}>
          <Stack>
            <Amount form={form} field="launcher_cpu" label={t('submit.launcherCpu')} max={most.cpu} />
            <Amount
              form={form}
              field="launcher_memory"
              label={t('submit.launcherMemory')}
              max={most.memory}
            />
          </Stack>
        </Section>
      )}
      <Section title={launcher ? t('submit.workerResources') : t('submit.resources')}>
        <Stack>
          <Radio.Group label={t('submit.preset')} value={chosen ?? 'custom'} onChange={pick}>
            <SimpleGrid cols={{ base: 2, sm: 4 }} mt={6} spacing="xs">
              {(['custom', ...PRESETS] as const).map((preset) => (
                <Radio.Card
                  key={preset}
                  value={preset}
                  px="sm"
                  py={8}
                  radius="md"
                  aria-label={t(`preset.${preset}`)}
                >
                  <Text size="sm" fw={600}>
                    {t(`preset.${preset}`)}
                  </Text>
                  <Text size="xs" c="dimmed">
                    {preset === 'custom'
                      ? t('preset.customHint')
                      : amounts({ ...presets[preset], memory: presets[preset].memory * 2 ** 30 })}
                  </Text>
                </Radio.Card>
              ))}
            </SimpleGrid>
          </Radio.Group>
          {(most.gpu > 0 || gpu_count > 0) && (
            <Amount form={form} field="gpu_count" label="GPU" max={most.gpu} />
          )}
          <Amount form={form} field="cpu_request" limit="cpu_limit" label="CPU" max={most.cpu} />
          <Amount
            form={form}
            field="memory_request"
            limit="memory_limit"
            label={t('submit.memory')}
            max={most.memory}
          />
          <Text size="xs" c="dimmed">
            {t('submit.requestHint')} {most.gpu === 0 && gpu_count === 0 && t('submit.noGpu')}
          </Text>
        </Stack>
      </Section>
    </>
  );
}

function Amount(props: {
  form: UseFormReturnType<Form>;
  field: 'gpu_count' | 'cpu_request' | 'memory_request' | 'launcher_cpu' | 'launcher_memory';
  limit?: 'cpu_limit' | 'memory_limit';
  label: string;
  max: number;
}) {
  const { t } = useTranslation();
  const { form, field, limit, label, max } = props;
  const step = field === 'gpu_count' ? 1 : stepOf(max);
  const min = field === 'gpu_count' ? 0 : step;
  const alone = field === 'gpu_count' ? t('submit.count') : t('submit.amount');
  const word = limit === undefined ? alone : t('submit.request');
  // Below the limit moves the limit along; a limit that was set apart stays.
  const set = (value: number) => {
    const moved =
      limit !== undefined && (form.values[limit] < value || form.values[limit] === form.values[field]);
    form.setValues({
      [field]: value,
      ...(moved && { [limit]: value }),
    });
  };
  return (
    <Grid align="flex-start" gap="sm">
      <Grid.Col span={{ base: 12, sm: limit === undefined ? 9 : 6 }}>
        <Text size="sm" fw={500}>
          {label}
        </Text>
        <Slider
          mt={14}
          min={0}
          max={Math.max(max, form.values[field])}
          step={step}
          value={form.values[field]}
          onChange={(value) => set(Math.max(min, value))}
          thumbLabel={label}
          label={null}
        />
      </Grid.Col>
      <Grid.Col span={{ base: limit === undefined ? 12 : 6, sm: 3 }}>
        <NumberInput
          label={word}
          aria-label={`${label} ${word}`}
          min={0}
          step={step}
          value={form.values[field]}
          error={form.errors[field]}
          onChange={(value) => set(Number(value))}
        />
      </Grid.Col>
      {limit !== undefined && (
        <Grid.Col span={{ base: 6, sm: 3 }}>
          <NumberInput
            label={t('submit.limit')}
            aria-label={`${label} ${t('submit.limit')}`}
            min={0}
            step={step}
            value={form.values[limit]}
            error={form.errors[limit]}
            onChange={(value) => form.setValues({ [limit]: Number(value) })}
          />
        </Grid.Col>
      )}
    </Grid>
  );
}
