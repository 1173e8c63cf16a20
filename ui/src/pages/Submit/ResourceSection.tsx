import { Grid, NumberInput, Radio, SimpleGrid, Slider, Stack, Text } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useTranslation } from 'react-i18next';

import { Section } from '@/components/Section';

import { type Form, hasLauncher, PRESETS } from './form';

/** How much of a machine each node gets, requests and limits; with MPI the launcher and the workers each. */
export function ResourceSection({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const launcher = hasLauncher(form.values.framework);
  const pick = (preset: string) => {
    const size = PRESETS[preset as keyof typeof PRESETS] as
      (typeof PRESETS)[keyof typeof PRESETS] | undefined;
    form.setValues({
      preset,
      ...(size !== undefined && { ...size, cpuLimit: size.cpu, memoryLimit: size.memory }),
    });
  };
  return (
    <>
      {launcher && (
        <Section title={t('submit.launcher')} hint={t('submit.launcherHint')}>
          <Stack>
            <Amount form={form} field="launcherCpu" label={t('submit.launcherCpu')} max={16} step={0.25} />
            <Amount
              form={form}
              field="launcherMemory"
              label={t('submit.launcherMemory')}
              max={64}
              step={0.5}
            />
          </Stack>
        </Section>
      )}
      <Section title={launcher ? t('submit.workerResources') : t('submit.resources')}>
        <Stack>
          <Radio.Group label={t('submit.preset')} value={form.values.preset} onChange={pick}>
            <SimpleGrid cols={{ base: 2, sm: 4 }} mt={6} spacing="xs">
              {(['custom', 'small', 'medium', 'large'] as const).map((preset) => (
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
                      : `GPU ${PRESETS[preset].gpu} · CPU ${PRESETS[preset].cpu} · ${PRESETS[preset].memory} GB`}
                  </Text>
                </Radio.Card>
              ))}
            </SimpleGrid>
          </Radio.Group>
          <Amount form={form} field="gpu" label="GPU" max={16} step={1} />
          <Amount form={form} field="cpu" limit="cpuLimit" label="CPU" max={64} step={0.5} />
          <Amount
            form={form}
            field="memory"
            limit="memoryLimit"
            label={t('submit.memory')}
            max={256}
            step={0.5}
          />
        </Stack>
      </Section>
    </>
  );
}

function Amount(props: {
  form: UseFormReturnType<Form>;
  field: 'gpu' | 'cpu' | 'memory' | 'launcherCpu' | 'launcherMemory';
  limit?: 'cpuLimit' | 'memoryLimit';
  label: string;
  max: number;
  step: number;
}) {
  const { t } = useTranslation();
  const { form, field, limit, label, max, step } = props;
  const min = field === 'gpu' ? 0 : step;
  const alone = field === 'gpu' ? t('submit.count') : t('submit.amount');
  const word = limit === undefined ? alone : t('submit.request');
  // Below the limit moves the limit along; a limit that was set apart stays.
  const set = (value: number) => {
    const moved =
      limit !== undefined && (form.values[limit] < value || form.values[limit] === form.values[field]);
    form.setValues({
      ...(field === 'gpu' || limit !== undefined ? { preset: 'custom' } : {}),
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
          max={max}
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
            onChange={(value) => form.setValues({ preset: 'custom', [limit]: Number(value) })}
          />
        </Grid.Col>
      )}
    </Grid>
  );
}
