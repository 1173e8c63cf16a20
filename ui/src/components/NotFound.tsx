import { Button } from '@mantine/core';
import { IconMapQuestion } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';
import { Link } from 'react-router';

import { ROUTES } from '@/routes';

import { Empty } from './Empty';

/** For an address that leads nowhere: a page that there is not, or a job that there is not any more. */
export function NotFound({ job }: { job?: string }) {
  const { t } = useTranslation();
  return (
    <Empty
      order={2}
      icon={IconMapQuestion}
      title={job === undefined ? t('notFound.page') : t('notFound.job', { name: job })}
      action={
        <Button
          component={Link}
          to={job === undefined ? ROUTES.jobs : `${ROUTES.jobs}?history=1`}
          variant="light"
        >
          {job === undefined ? t('notFound.toJobs') : t('notFound.toHistory')}
        </Button>
      }
    >
      {job === undefined ? t('notFound.pageHint') : t('notFound.jobHint')}
    </Empty>
  );
}
