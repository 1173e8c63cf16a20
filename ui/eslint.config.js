import hooks from 'eslint-plugin-react-hooks';
import typescript from 'typescript-eslint';

export default typescript.config(
  { ignores: ['dist', 'src/api.gen.ts', 'test-results'] },
  ...typescript.configs.strict,
  { ...hooks.configs.flat.recommended, files: ['src/**'] },
  {
    rules: {
      '@typescript-eslint/switch-exhaustiveness-check': 'off',
      'no-console': 'error',
    },
  },
);
