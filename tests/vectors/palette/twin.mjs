/**
 * Runs palette.ts in Node, for the tests of its twin: one request a line on standard input
 * ({rgba: base64, count}), one answer a line on standard output ({swatches, luminance}).
 */

import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const entry = fileURLToPath(new URL('../../../frontend/src/lib/workers/palette.ts', import.meta.url));
const { output } = (
  await build({
    configFile: false,
    logLevel: 'error',
    build: { write: false, minify: false, lib: { entry, formats: ['es'] } },
  })
)[0];
const { dominantColors, averageLuminance } = await import(
  `data:text/javascript;base64,${Buffer.from(output[0].code).toString('base64')}`
);

for await (const line of createInterface({ input: process.stdin })) {
  const { rgba, count } = JSON.parse(line);
  const pixels = new Uint8Array(Buffer.from(rgba, 'base64'));
  const answer = { swatches: dominantColors(pixels, count), luminance: averageLuminance(pixels) };
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
