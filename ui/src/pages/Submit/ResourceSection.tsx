import {
  Card,
  Grid,
  Group,
  NumberInput,
  Radio,
  SimpleGrid,
  Slider,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useTranslation } from 'react-i18next';

import { type Form, PRESETS } from './form';

/** How much of a machine each node gets: presets first, sliders below, and the image. */
export function ResourceSection({ form }: { form: UseFormReturnType<Form> }) {
  const { t } = useTranslation();
  const horovod = form.values.framework === 'horovod';
  const pick = (preset: string) => {
    const size = PRESETS[preset as keyof typeof PRESETS] as
      (typeof PRESETS)[keyof typeof PRESETS] | undefined;
    form.setValues({
      preset,
      ...(size !== undefined && { ...size, cpuLimit: size.cpu, memoryLimit: size.memory }),
    });
  };
  return (
    <Card withBorder>
      <Title order={3} size="h5" mb="sm">
        {horovod ? t('submit.workerResources') : t('submit.resources')}
      </Title>
      <Stack>
        <Radio.Group label={t('submit.preset')} value={form.values.preset} onChange={pick}>
          <SimpleGrid cols={{ base: 2, sm: 4 }} mt={6} spacing="xs">
            {(['custom', 'small', 'medium', 'large'] as const).map((preset) => (
              <Radio.Card key={preset} value={preset} p="xs" radius="md" aria-label={t(`preset.${preset}`)}>
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
        <Radio.Group label={t('submit.image')} {...form.getInputProps('imageSource')}>
          <Group mt={6}>
            <Radio value="built-in" label={t('submit.builtIn')} />
            <Radio value="custom" label={t('submit.customImage')} />
          </Group>
        </Radio.Group>
        {form.values.imageSource === 'custom' && (
          <TextInput
            label={t('submit.imageAddress')}
            placeholder="pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
            {...form.getInputProps('image')}
          />
        )}
      </Stack>
    </Card>
  );
}

function Amount(props: {
  form: UseFormReturnType<Form>;
  field: 'gpu' | 'cpu' | 'memory';
  limit?: 'cpuLimit' | 'memoryLimit';
  label: string;
  max: number;
  step: number;
}) {
  const { t } = useTranslation();
  const { form, field, limit, label, max, step } = props;
  const min = field === 'gpu' ? 0 : step;
  const set = (value: number) => {
    form.setValues({
      preset: 'custom',
      [field]: value,
      ...(limit !== undefined && form.values[limit] < value && { [limit]: value }),
    });
  };
  return (
    <Grid align="flex-end" gap="sm">
      <Grid.Col span={{ base: 12, sm: limit === undefined ? 9 : 6 }}>
        <Text size="sm" fw={500}>
          {label}
        </Text>
        <Slider
          mt={6}
          min={0}
          max={max}
          step={step}
          value={form.values[field]}
          onChange={(value) => set(Math.max(min, value))}
          thumbLabel={label}
          label={null}
        />
      </Grid.Col>
      <Grid.Col span={{ base: 6, sm: 3 }}>
        <NumberInput
          label={limit === undefined ? t('submit.count') : t('submit.request')}
          aria-label={`${label} ${limit === undefined ? t('submit.count') : t('submit.request')}`}
          min={min}
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
            min={form.values[field]}
            step={step}
            {...form.getInputProps(limit)}
          />
        </Grid.Col>
      )}
    </Grid>
  );
}
