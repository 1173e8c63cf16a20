import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

import react from '@vitejs/plugin-react';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

// `npm run dev` serves the page with hot reload and hands API calls to a running `astrago up`.
const server = process.env.ASTRAGO_SERVER ?? 'http://127.0.0.1:8000';

/** Compresses what can be compressed, once and in place: this is how the binary keeps it, and hands it out. */
function gzipped(): Plugin {
  return {
    name: 'gzipped',
    apply: 'build',
    writeBundle({ dir = 'dist' }, bundle) {
      for (const name of [...Object.keys(bundle), 'favicon.svg', 'boot.js']) {
        if (!/\.(js|css|html|svg)$/.test(name)) continue;
        const file = join(dir, name);
        writeFileSync(`${file}.gz`, gzipSync(readFileSync(file), { level: 9 }));
        rmSync(file);
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), gzipped()],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  // Newer than what has `light-dark()` itself: written for older browsers, it would need variables that nobody defines.
  build: {
    target: 'es2023',
    cssTarget: ['chrome123', 'edge123', 'firefox120', 'safari17.5'],
    sourcemap: false,
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { '/api': { target: server, changeOrigin: true, headers: { origin: server } } } },
  test: { include: ['src/**/*.test.ts', 'src/**/*.test.tsx', 'tests/**/*.test.ts'] },
});
