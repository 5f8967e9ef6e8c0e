/**
 * The colours of an image as weighted points: each distinct colour where they are few, 5-bit bins where
 * they are many. Points are flat: pixels, sum of red, sum of green, sum of blue — integers below 2^53, so
 * every sum is exact and the order of the pixels cannot show.
 */

export type Pixels = Uint8Array | Uint8ClampedArray;

/** Numbers a point. */
export const FIELDS = 4;

/** Below this alpha a pixel is not a colour. */
export const OPAQUE = 128;

const EXACT_COLORS = 4096;
/** An open hash table at most a quarter full; the shift leaves as many bits as number its slots. */
const EXACT_SLOTS = 4 * EXACT_COLORS;
const EXACT_SHIFT = 18;

const BINS = 32 * 32 * 32;
/** A bin's two lanes hold 16 bits a sum: pixels and red, green and blue, each less its bin's floor. */
const ONE_PIXEL = 0x10000;
/** At so many pixels of up to 7 the lanes are still far from 2^31; then they are emptied. */
const FULL = 4095 * ONE_PIXEL;

/**
 * One pass over the pixels; from the pixel on that brings one distinct colour too many, into bins. Which of
 * the two it becomes depends on the set of colours only.
 */
export function countColors(pixels: Pixels): Float64Array {
  const words = toWords(pixels);
  const keys = new Int32Array(EXACT_SLOTS).fill(-1);
  const counts = new Float64Array(EXACT_SLOTS);
  let distinct = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    if (word >= 0) continue;
    const key = word & 0xffffff;
    let slot = Math.imul(key, 0x9e3779b1) >>> EXACT_SHIFT;
    while (keys[slot] !== key && keys[slot] !== -1) slot = (slot + 1) % EXACT_SLOTS;
    if (keys[slot] === -1) {
      if (distinct === EXACT_COLORS) return countBins(words, i, keys, counts);
      distinct++;
      keys[slot] = key;
    }
    (counts[slot] as number)++;
  }
  return exactPoints(keys, counts, distinct);
}

/** Nearest integer to sum ÷ pixels, halves up. */
export function mean(sum: number, pixels: number): number {
  return Math.floor(sum / pixels + 0.5);
}

export function requireRgba(pixels: Pixels): void {
  if (pixels.length % 4 !== 0) throw new RangeError(`${pixels.length} bytes are not whole RGBA pixels`);
}

/**
 * A pixel as one number: 0xAABBGGRR, as every machine with a browser stores it; alpha of 128 or more makes
 * it negative. Copies only what does not start on a multiple of four.
 */
function toWords(pixels: Pixels): Int32Array {
  requireRgba(pixels);
  const aligned = pixels.byteOffset % 4 === 0 ? pixels : pixels.slice();
  return new Int32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4);
}

/** Ascending by red, green, blue. */
function exactPoints(keys: Int32Array, counts: Float64Array, distinct: number): Float64Array {
  const rgb = (key: number): number => ((key & 255) << 16) | (key & 0xff00) | (key >> 16);
  const slots = Uint16Array.from(keys.keys())
    .filter((slot) => keys[slot] !== -1)
    .sort((a, b) => rgb(keys[a] as number) - rgb(keys[b] as number));
  const points = new Float64Array(distinct * FIELDS);
  slots.forEach((slot, point) => {
    const key = keys[slot] as number;
    const pixels = counts[slot] as number;
    points[point * FIELDS] = pixels;
    points[point * FIELDS + 1] = pixels * (key & 255);
    points[point * FIELDS + 2] = pixels * ((key >> 8) & 255);
    points[point * FIELDS + 3] = pixels * (key >> 16);
  });
  return points;
}

/** Continues at pixel `from` with the colours counted before it. Ascending by red, green, blue. */
function countBins(words: Int32Array, from: number, keys: Int32Array, counts: Float64Array): Float64Array {
  const lanes = new Int32Array(2 * BINS);
  const bins = new Float64Array(FIELDS * BINS);
  for (let slot = 0; slot < EXACT_SLOTS; slot++) {
    const key = keys[slot] as number;
    if (key === -1) continue;
    const pixels = counts[slot] as number;
    const at = 2 * laneOf(key);
    (bins[at] as number) += pixels;
    (bins[at + 1] as number) += pixels * (key & 7);
    (bins[at + 2] as number) += pixels * ((key >> 8) & 7);
    (bins[at + 3] as number) += pixels * ((key >> 16) & 7);
  }
  for (let i = from; i < words.length; i++) {
    const word = words[i] as number;
    if (word >= 0) continue;
    const lane = laneOf(word);
    const pixelsAndRed = (lanes[lane] as number) + (ONE_PIXEL | (word & 7));
    lanes[lane] = pixelsAndRed;
    (lanes[lane + 1] as number) += ((word << 8) & 0x70000) | ((word >> 16) & 7);
    if (pixelsAndRed >= FULL) empty(lanes, lane, bins);
  }
  for (let lane = 0; lane < lanes.length; lane += 2) {
    if (lanes[lane] !== 0) empty(lanes, lane, bins);
  }
  return occupied(bins);
}

/** Twice the number of the bin: rrrrrgggggbbbbb0. */
function laneOf(word: number): number {
  return ((word & 0xf8) << 8) | ((word >> 5) & 0x7c0) | ((word >> 18) & 0x3e);
}

function empty(lanes: Int32Array, lane: number, bins: Float64Array): void {
  const pixelsAndRed = lanes[lane] as number;
  const greenAndBlue = lanes[lane + 1] as number;
  (bins[2 * lane] as number) += pixelsAndRed >> 16;
  (bins[2 * lane + 1] as number) += pixelsAndRed & 0xffff;
  (bins[2 * lane + 2] as number) += greenAndBlue >> 16;
  (bins[2 * lane + 3] as number) += greenAndBlue & 0xffff;
  lanes[lane] = 0;
  lanes[lane + 1] = 0;
}

/** Bins that hold something, with their floors added back. */
function occupied(bins: Float64Array): Float64Array {
  let end = 0;
  for (let bin = 0; bin < BINS; bin++) {
    const from = FIELDS * bin;
    const pixels = bins[from] as number;
    if (pixels === 0) continue;
    bins[end] = pixels;
    bins[end + 1] = (bins[from + 1] as number) + pixels * 8 * (bin >> 10);
    bins[end + 2] = (bins[from + 2] as number) + pixels * 8 * ((bin >> 5) & 31);
    bins[end + 3] = (bins[from + 3] as number) + pixels * 8 * (bin & 31);
    end += FIELDS;
  }
  return bins.slice(0, end);
}
