import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [react()],
  base: './',
  publicDir: false,
  build: {
    // Committed, and part of the wheel: nobody who runs Voxelflow needs node.js.
    outDir: process.env.CANVAS_BUILD ?? 'build',
    emptyOutDir: true,
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
    license: { fileName: 'licenses.md' },
    rolldownOptions: {
      input: 'src/main.tsx',
      // Streamlit calls the entry's default export: it must survive the bundling.
      preserveEntrySignatures: 'strict',
      output: { codeSplitting: false, entryFileNames: 'index-[hash].js', assetFileNames: 'index-[hash][extname]' },
    },
  },
  test: { environment: 'node', include: ['src/**/*.test.ts'] },
});
