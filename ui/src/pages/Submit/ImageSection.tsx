import { Autocomplete, Group, Radio, Select, Stack, Text, TextInput } from '@mantine/core';
import type { UseFormReturnType } from '@mantine/form';
import { useTranslation } from 'react-i18next';

import { Section } from '@/components/Section';
import { useRuntimes } from '@/services/places';

import { type Form, type ImageSource } from './form';
import { knownImages } from './images';

/** What the nodes run: the framework's image, one that is known here, or any by its address. */
export function ImageSection({ form, user }: { form: UseFormReturnType<Form>; user: string }) {
  const { t } = useTranslation();
  const runtimes = useRuntimes();
  const catalogue = runtimes.data ?? [];
  const source = form.values.imageSource;
  return (
    <Section title={t('submit.image')}>
      <Stack>
        <Radio.Group
          aria-label={t('submit.image')}
          value={source}
          onChange={(value) => form.setValues({ imageSource: value as ImageSource, image: '' })}
        >
          <Group>
            <Radio value="built-in" label={t('submit.builtIn')} />
            <Radio value="custom" label={t('submit.customImage')} />
            <Radio value="container" label={t('submit.containerImage')} />
          </Group>
        </Radio.Group>
        {source === 'built-in' && (
          <Text size="sm" c="dimmed">
            {t('submit.builtInHint')}
          </Text>
        )}
        {source === 'custom' && (
          <Autocomplete
            label={t('submit.knownImage')}
            description={t('submit.knownImageHint')}
            data={knownImages(user, catalogue)}
            {...form.getInputProps('image')}
          />
        )}
        {source === 'container' && (
          <TextInput
            label={t('submit.imageAddress')}
            placeholder="pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime"
            {...form.getInputProps('image')}
          />
        )}
        <Select
          label={t('submit.runtime')}
          description={t('submit.runtimeHint')}
          placeholder={t('submit.runtimeDefault')}
          data={catalogue.map((runtime) => runtime.name)}
          clearable
          searchable
          value={form.values.runtime === '' ? null : form.values.runtime}
          error={form.errors['runtime']}
          onChange={(value) => form.setFieldValue('runtime', value ?? '')}
        />
      </Stack>
    </Section>
  );
}
