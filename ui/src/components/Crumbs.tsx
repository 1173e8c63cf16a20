import { Anchor, Breadcrumbs } from '@mantine/core';
import { Link } from 'react-router';

/** The way to this page: what each step is called, and where it is. */
export function Crumbs({ steps }: { steps: [string, string][] }) {
  return (
    <Breadcrumbs separatorMargin={6} mb={4} fz="sm">
      {steps.map(([name, place]) => (
        <Anchor key={place} component={Link} to={place} size="sm" c="dimmed">
          {name}
        </Anchor>
      ))}
    </Breadcrumbs>
  );
}
