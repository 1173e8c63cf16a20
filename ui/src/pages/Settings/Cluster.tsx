import { Badge, Code, Group } from '@mantine/core';
import { useTranslation } from 'react-i18next';

import { ErrorNote } from '@/components/ErrorNote';
import { Facts } from '@/components/Facts';
import { Section } from '@/components/Section';
import { useCluster, useVersion } from '@/services/places';

/** What a cluster may have besides Kubernetes, as its maker writes it. */
const PARTS = {
  training_operator_v1: 'Training Operator v1',
  kueue: 'Kueue',
  volcano: 'Volcano',
  karpenter: 'Karpenter',
  metrics: 'metrics.k8s.io',
} as const;

/** What server this is, who runs the jobs behind it, and what else its cluster offers. */
export function Cluster() {
  const { t } = useTranslation();
  const version = useVersion();
  const cluster = useCluster();
  const info = cluster.data;
  const own = version.data?.['version'];
  return (
    <Section title={t('settings.cluster')}>
      {cluster.error !== null && <ErrorNote error={cluster.error} onRetry={() => void cluster.refetch()} />}
      {info !== undefined && (
        <Facts
          facts={[
            [t('settings.version'), typeof own === 'string' ? own : '–'],
            [
              t('settings.connection'),
              <Badge key="connected" color={info.connected ? 'green' : 'orange'}>
                {info.connected ? t('settings.connected') : t('settings.disconnected')}
              </Badge>,
            ],
            [t('settings.kubernetes'), info.kubernetes_version ?? '–'],
            [
              t('settings.engine'),
              info.astrago_controllers
                ? t('settings.engineOwn')
                : `Kubeflow Trainer ${info.trainer_version ?? t('settings.engineOld')}`,
            ],
            [t('settings.dialect'), <Code key="dialect">{info.dialect}</Code>],
            [
              t('settings.parts'),
              <Group key="parts" gap={6}>
                {Object.entries(PARTS).map(([key, label]) => {
                  const there = info[key as keyof typeof PARTS];
                  return (
                    <Badge
                      key={key}
                      color={there ? 'green' : 'gray'}
                      variant={there ? 'light' : 'default'}
                      data-part={key}
                      data-there={there}
                    >
                      {label}
                      {there ? '' : ` · ${t('settings.absent')}`}
                    </Badge>
                  );
                })}
              </Group>,
            ],
          ]}
        />
      )}
    </Section>
  );
}
