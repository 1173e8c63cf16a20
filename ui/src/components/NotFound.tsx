import { Button } from '@mantine/core';
import { IconMapQuestion } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { ROUTES } from '@/routes';

import { Empty } from './Empty';

const WAYS = {
  page: ROUTES.jobs,
  job: `${ROUTES.jobs}?history=1`,
  node: ROUTES.nodes,
  runtime: ROUTES.runtimes,
} as const;

/** For an address that leads nowhere: a page that there is not, or a thing that there is not any more. */
export function NotFound({ what = 'page', name = '' }: { what?: keyof typeof WAYS; name?: string }) {
  const { t } = useTranslation();
  return (
    <Empty
      order={2}
      icon={IconMapQuestion}
      title={t(`notFound.${what}.title`, { name })}
      action={
        <Button component={Link} to={WAYS[what]} variant="light">
          {t(`notFound.${what}.way`)}
        </Button>
      }
    >
      {t(`notFound.${what}.hint`)}
    </Empty>
  );
}
