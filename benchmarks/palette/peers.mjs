/**
 * Palettes and times of palette.ts and of its peers, in one process, over the same pixels.
 *
 *   node peers.mjs manifest.json     [{name, width, height, file}], file: raw RGBA
 *
 * Prints {versions, runs: [{library, setting, image, milliseconds, colors}]}.
 */

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MMCQ } from '@vibrant/quantizer-mmcq';
import { getPalette } from 'colorthief';
import { extractColorsFromImageData } from 'extract-colors';
import { build } from 'vite';

const SWATCHES = 6;
const here = dirname(fileURLToPath(import.meta.url));
const [{ output }] = await build({
  configFile: false,
  logLevel: 'error',
  build: {
    write: false,
    minify: false,
    lib: { entry: join(here, '../../frontend/src/lib/workers/palette.ts'), formats: ['es'] },
  },
});
const { dominantColors } = await import(
  `data:text/javascript;base64,${Buffer.from(output[0].code).toString('base64')}`
);

const colorthief = async (image, options) => {
  const loader = { load: async () => image };
  const palette = await getPalette(null, { colorCount: SWATCHES, loader, ...options });
  return palette.map((color) => color.array());
};
const extractColors = (image, options) =>
  extractColorsFromImageData(image, options)
    .sort((a, b) => b.area - a.area)
    .slice(0, SWATCHES)
    .map(({ red, green, blue }) => [red, green, blue]);

/** 'every pixel' is the same work for all; 'as shipped' is the sampling each library does by default. */
const contenders = [
  {
    library: 'pillarbox',
    setting: 'every pixel',
    run: (image) => dominantColors(image.data, SWATCHES).map(({ r, g, b }) => [r, g, b]),
  },
  { library: 'colorthief', setting: 'every pixel', run: (image) => colorthief(image, { quality: 1 }) },
  { library: 'colorthief', setting: 'as shipped', run: (image) => colorthief(image, {}) },
  {
    library: 'node-vibrant',
    setting: 'every pixel',
    run: (image) => MMCQ(image.data, { colorCount: SWATCHES }).map((swatch) => swatch.rgb),
  },
  {
    library: 'extract-colors',
    setting: 'every pixel',
    run: (image) => extractColors(image, { pixels: image.width * image.height }),
  },
  { library: 'extract-colors', setting: 'as shipped', run: (image) => extractColors(image, {}) },
];

/** The quick ones are timed more often than the slow ones: a median over at least so many runs and so long. */
const ROUNDS = 5;
const MILLISECONDS = 200;

async function measure(work) {
  const times = [];
  let spent = 0;
  let colors;
  while (times.length < ROUNDS || spent < MILLISECONDS) {
    const start = performance.now();
    colors = await work();
    const milliseconds = performance.now() - start;
    times.push(milliseconds);
    spent += milliseconds;
  }
  times.sort((a, b) => a - b);
  return { milliseconds: times[times.length >> 1], colors };
}

const images = JSON.parse(readFileSync(process.argv[2], 'utf8')).map(({ name, width, height, file }) => ({
  name,
  width,
  height,
  data: new Uint8ClampedArray(readFileSync(file)),
}));
const runs = [];
for (const { library, setting, run } of contenders) {
  // One contender after the other, the garbage of the one before collected, the code warm.
  globalThis.gc?.();
  await measure(() => run(images[0]));
  for (const image of images) {
    runs.push({ library, setting, image: image.name, ...(await measure(() => run(image))) });
  }
}

const versionOf = (name) =>
  JSON.parse(readFileSync(join(here, 'node_modules', name, 'package.json'), 'utf8')).version;
const versions = Object.fromEntries(
  ['colorthief', 'node-vibrant', 'extract-colors'].map((name) => [name, versionOf(name)]),
);
process.stdout.write(JSON.stringify({ versions: { node: process.versions.node, ...versions }, runs }));
