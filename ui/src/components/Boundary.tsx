import { Alert, Button, Text } from '@mantine/core';
import { IconAlertCircle } from '@tabler/icons-react';
import { Component, type ReactNode, useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';

import { freshness, reloadOnce } from '@/libs/freshness';

interface Props {
  /** Where the reader is: elsewhere it is tried again. */
  at: string;
  children: ReactNode;
}

/** Instead of a white page: what cannot be drawn is explained, and the rest of the page stays. */
export class Boundary extends Component<Props, { error: Error | undefined }> {
  override state = { error: undefined };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidUpdate(before: Props) {
    if (before.at !== this.props.at && this.state.error !== undefined) this.setState({ error: undefined });
  }

  override render() {
    return this.state.error === undefined ? this.props.children : <Broken error={this.state.error} />;
  }
}

/** How long until the server is asked again. */
const PAUSE = 2_000;

/** Most often a part of the page could not be loaded: the server is away, or has a newer page. */
function Broken({ error }: { error: Error }) {
  const { t } = useTranslation();
  const missing = /import|load|fetch/i.test(error.message);
  const [found, setFound] = useState<Awaited<ReturnType<typeof freshness>>>();
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let left = false;
    const look = async () => {
      const now = await freshness();
      if (left) return;
      // What was missing can be loaded now; a mistake in the page itself would only come again.
      if ((now === 'newer' || (now === 'same' && missing)) && reloadOnce()) return;
      setFound(now);
      if (now !== 'away') return;
      timer = setTimeout(() => void look(), PAUSE);
    };
    void look();
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [missing]);
  if (found === undefined) return null;
  return (
    <Alert
      color="red"
      icon={<IconAlertCircle size={18} />}
      title={t('broken.title')}
      role="alert"
      data-broken={found}
    >
      <Text size="sm">{t(`broken.${found}`)}</Text>
      {found === 'same' && (
        <Text size="sm" c="dimmed" lang="en">
          {error.message}
        </Text>
      )}
      {found !== 'away' && (
        <Button mt="sm" size="xs" variant="light" color="red" onClick={() => window.location.reload()}>
          {t('broken.reload')}
        </Button>
      )}
    </Alert>
  );
}
