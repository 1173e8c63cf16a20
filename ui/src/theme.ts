import {
  Alert,
  alpha,
  Badge,
  Button,
  Card,
  createTheme,
  type CSSVariablesResolver,
  type MantineColorsTuple,
  Table,
  Tooltip,
} from '@mantine/core';

/** Text, borders, inputs and grounds of the dark theme: a little blue, so that they do not look like soot. */
const DARK: MantineColorsTuple = [
  '#d8dbe0',
  '#b4bac3',
  '#9aa1ab',
  '#7d8590',
  '#363c45',
  '#2a2f37',
  '#1f2329',
  '#16181c',
  '#131519',
  '#0f1114',
];

export const theme = createTheme({
  primaryColor: 'indigo',
  primaryShade: { light: 7, dark: 8 },
  defaultRadius: 'md',
  autoContrast: true,
  cursorType: 'pointer',
  // Korean has no letters in Inter: its glyphs come from the system.
  fontFamily:
    '"Inter Variable", system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans KR", "Noto Sans CJK KR", "Apple SD Gothic Neo", "Malgun Gothic", sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace',
  fontSizes: { xs: '12px', sm: '13.5px', md: '14px', lg: '16px', xl: '18px' },
  colors: { dark: DARK },
  headings: {
    fontWeight: '600',
    sizes: {
      h1: { fontSize: '20px', lineHeight: '1.4' },
      h2: { fontSize: '20px', lineHeight: '1.4' },
      h3: { fontSize: '16px', lineHeight: '1.4' },
      h4: { fontSize: '15px', lineHeight: '1.4' },
      h5: { fontSize: '14px', lineHeight: '1.5' },
    },
  },
  components: {
    // Code in it scrolls, instead of pushing the words over the edge.
    Alert: Alert.extend({ styles: { body: { minWidth: 0, overflowWrap: 'anywhere' } } }),
    Badge: Badge.extend({ defaultProps: { tt: 'none', radius: 'sm', variant: 'light', fw: 550 } }),
    Button: Button.extend({ styles: { label: { fontWeight: 550 } } }),
    Card: Card.extend({ defaultProps: { withBorder: true } }),
    Table: Table.extend({ defaultProps: { verticalSpacing: 8, horizontalSpacing: 12 } }),
    Tooltip: Tooltip.extend({
      defaultProps: { withArrow: true, openDelay: 250, transitionProps: { duration: 80 } },
    }),
  },
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
    '--mantine-color-dimmed': '#596069',
    '--mantine-color-placeholder': '#6c757d',
    '--mantine-color-error': '#c21d1d',
    '--mantine-color-anchor': INK['indigo'] ?? '',
    '--mantine-color-default-border': '#e3e6ea',
    '--page-side': '#f8f9fb',
    '--page-raised': '#ffffff',
    '--page-head': '#f8f9fb',
  };
  const dark: Record<string, string> = {
    '--mantine-color-dimmed': '#9aa1ab',
    '--mantine-color-placeholder': '#8d949e',
    '--mantine-color-default-border': shade(DARK, 4),
    '--mantine-color-error': shade(colors.red, 4),
    '--mantine-color-anchor': shade(colors.indigo, 3),
    '--page-side': shade(DARK, 8),
    '--page-raised': '#1a1d22',
    '--page-head': shade(DARK, 6),
  };
  for (const [name, ink] of Object.entries(INK)) {
    light[`--mantine-color-${name}-light-color`] = ink;
    light[`--mantine-color-${name}-text`] = ink;
    const bright = shade(colors[name as 'gray'], 2);
    // The library's own tints are too loud on the dark ground.
    dark[`--mantine-color-${name}-light`] = alpha(shade(colors[name as 'gray'], 6), 0.18);
    dark[`--mantine-color-${name}-light-hover`] = alpha(shade(colors[name as 'gray'], 6), 0.26);
    dark[`--mantine-color-${name}-light-color`] = bright;
    dark[`--mantine-color-${name}-text`] = bright;
  }
  return { variables: {}, light, dark };
};

function shade(tuple: MantineColorsTuple, index: number): string {
  return tuple[index] ?? '';
}
