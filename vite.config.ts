import { fileURLToPath } from 'node:url';
import { paraglideVitePlugin } from '@inlang/paraglide-js';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: at('frontend'),
  cacheDir: at('node_modules/.vite'),
  plugins: [
    paraglideVitePlugin({
      project: at('project.inlang'),
      outdir: at('frontend/src/lib/paraglide'),
      // The address alone decides the language; app/location.svelte.ts puts it in.
      strategy: ['globalVariable', 'baseLocale'],
      outputStructure: 'message-modules',
      isServer: 'false',
      emitReadme: false,
    }),
    svelte({ configFile: at('svelte.config.js') }),
  ],
  build: {
    outDir: at('backend/pillarbox/web'),
    emptyOutDir: true,
    target: 'es2022',
    // Nothing becomes a data: address: what is fetched is cached, and the policy stays narrow.
    assetsInlineLimit: 0,
  },
  // A classic worker cannot load the chunks of a production build.
  worker: { format: 'es' },
  server: { proxy: { '/api': process.env.PILLARBOX_URL ?? 'http://127.0.0.1:8000' } },
  test: {
    include: ['src/**/*.test.ts'],
    environment: 'node',
  },
});
