import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

const LAZY = join(import.meta.dirname, 'src', 'lazy');

// Two bundles: `vite build --mode niivue` makes what is loaded when the first volume is opened, then `vite build` the
// canvas. In one build both would share a third file, and each start of the editor would wait for one more request.
export default defineConfig(({ mode }) => (mode === 'niivue' ? bundle(NIIVUE) : bundle(CANVAS)));

/** Named by what it is made of, so that both builds know it. */
const niivueFile = `niivue-${digestOf([
  ...readdirSync(LAZY).map((name) => readFileSync(join(LAZY, name))),
  readFileSync(join(import.meta.dirname, 'package-lock.json')),
])}.js`;

const NIIVUE = { input: 'src/lazy/niivue.ts', licences: 'licenses-niivue.md', entry: niivueFile, first: true };
const CANVAS = { input: 'src/main.tsx', licences: 'licenses.md', entry: 'index-[hash].js', first: false };

function bundle({ input, licences, entry, first }) {
  return {
    plugins: [react()],
    base: './',
    publicDir: false,
    define: { NIIVUE_FILE: JSON.stringify(niivueFile) },
    resolve: first ? { alias: { zarrita: join(LAZY, 'no_zarr.ts') } } : {},
    build: {
      // Committed, and part of the wheel: nobody who runs Voxelflow needs node.js.
      outDir: process.env.CANVAS_BUILD ?? 'build',
      emptyOutDir: first,
      // What today's Streamlit itself asks of a browser.
      target: 'es2022',
      sourcemap: false,
      modulePreload: false,
      // One style sheet: Streamlit is given one.
      cssCodeSplit: false,
      assetsInlineLimit: Number.MAX_SAFE_INTEGER,
      reportCompressedSize: false,
      chunkSizeWarningLimit: 1000,
      // What is bundled asks for its licence to travel along.
      license: { fileName: licences },
      rolldownOptions: {
        input,
        // Streamlit calls the entry's default export: it must survive the bundling.
        preserveEntrySignatures: 'strict',
        output: { codeSplitting: false, entryFileNames: entry, assetFileNames: 'index-[hash][extname]' },
      },
    },
    test: { environment: 'node', include: ['src/**/*.test.ts'] },
  };
}

function digestOf(parts) {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex').slice(0, 8);
}
