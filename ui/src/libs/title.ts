import { useDocumentTitle } from '@mantine/hooks';
import { useTranslation } from 'react-i18next';
import { matchPath } from 'react-router';

import { PAGES } from '@/navigation';
import { ROUTES } from '@/routes';

/** Names the browser's tab after what is open in it, so that ten of them can be told apart. */
export function useTitle(pathname: string) {
  const { t } = useTranslation();
  const named = [ROUTES.job, ROUTES.node, ROUTES.runtime]
    .map(({ template }) => matchPath(template, pathname)?.params)
    .find((parameters) => parameters !== undefined);
  const page = PAGES.find(({ to }) => pathname === to);
  const own =
    named !== undefined
      ? named.name
      : pathname === ROUTES.compare
        ? t('compare.title')
        : page === undefined
          ? t('notFound.page.title')
          : t(`nav.${page.key}`);
  useDocumentTitle(`${own} · ${t('app.name')}`);
}
