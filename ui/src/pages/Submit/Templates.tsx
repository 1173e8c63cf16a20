import { Button, Menu } from '@mantine/core';
import { IconTemplate } from '@tabler/icons-react';
import { useTranslation } from 'react-i18next';

import { type Form, FRAMEWORKS } from './form';
import { TEMPLATES } from './templates';

/** Places to start from: an example for each framework that trains at once, and the job submitted last. */
export function Templates({
  onPick,
  onLast,
}: {
  onPick: (form: Partial<Form>) => void;
  onLast: (() => void) | undefined;
}) {
  const { t } = useTranslation();
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" data-templates leftSection={<IconTemplate size={16} />}>
          {t('submit.templates')}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {FRAMEWORKS.filter((framework) => TEMPLATES[framework] !== undefined).map((framework) => (
          <Menu.Item key={framework} onClick={() => onPick({ framework, ...TEMPLATES[framework] })}>
            {t('submit.example', { framework: t(`framework.${framework}.name`) })}
          </Menu.Item>
        ))}
        {onLast !== undefined && (
          <>
            <Menu.Divider />
            <Menu.Item onClick={onLast}>{t('submit.last')}</Menu.Item>
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
