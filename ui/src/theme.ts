import { createTheme, type CSSVariablesResolver, type MantineColorsTuple } from '@mantine/core';

export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 7, dark: 8 },
  defaultRadius: 'md',
  autoContrast: true,
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace',
});

/** Coloured text of the library's light variants, dark enough (or light enough) for WCAG AA on its own tint. */
const INK: Record<string, string> = {
  gray: '#343a40',
  blue: '#0b4f86',
  teal: '#065f48',
  green: '#1c6026',
  lime: '#3f6212',
  cyan: '#0b5563',
  grape: '#7a2589',
  violet: '#5230b0',
  pink: '#99214f',
  orange: '#8a3206',
  yellow: '#7a4a00',
  red: '#a51111',
  indigo: '#2a3eb1',
};

export const variables: CSSVariablesResolver = ({ colors }) => {
  const light: Record<string, string> = {
    '--mantine-color-dimmed': shade(colors.gray, 7),
    '--mantine-color-placeholder': '#6c757d',
    '--mantine-color-error': '#c21d1d',
    '--mantine-color-anchor': INK['indigo'] ?? '',
  };
  const dark: Record<string, string> = {
    '--mantine-color-dimmed': shade(colors.dark, 1),
    '--mantine-color-placeholder': shade(colors.dark, 1),
    '--mantine-color-error': shade(colors.red, 4),
    '--mantine-color-anchor': shade(colors.indigo, 3),
  };
  for (const [name, ink] of Object.entries(INK)) {
    light[`--mantine-color-${name}-light-color`] = ink;
    light[`--mantine-color-${name}-text`] = ink;
    const bright = shade(colors[name as 'gray'], 2);
    dark[`--mantine-color-${name}-light-color`] = bright;
    dark[`--mantine-color-${name}-text`] = bright;
  }
  return { variables: {}, light, dark };
};

function shade(tuple: MantineColorsTuple, index: number): string {
  return tuple[index] ?? '';
}
