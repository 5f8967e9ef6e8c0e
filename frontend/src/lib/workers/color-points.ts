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
/** An open hash table at most half full; the shift leaves as many bits as number its slots. */
const EXACT_SLOTS = 2 * EXACT_COLORS;
const EXACT_SHIFT = 19;

const BINS = 32 * 32 * 32;
/** A bin's two lanes hold 16 bits a sum: pixels and red, green and blue, each less its bin's floor. */
const ONE_PIXEL = 0x10000;
/** So many pixels of up to 7 a channel stay below 2^31; then the lanes are emptied. */
const FULL = 4095 * ONE_PIXEL;

/**
 * One pass over the pixels; from the pixel on that brings one distinct colour too many, into bins. Which of
 * the two it becomes depends on the set of colours only.
 */
export function countColors(pixels: Pixels): Float64Array {
  const words = toWords(pixels);
  const keys = new Int32Array(EXACT_SLOTS).fill(-1);
  const counts = new Int32Array(EXACT_SLOTS);
  let distinct = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    if (word >= 0) continue;
    const key = word & 0xffffff;
    let slot = Math.imul(key, 0x9e3779b1) >>> EXACT_SHIFT;
    while (keys[slot] !== key && keys[slot] !== -1) slot = (slot + 1) & (EXACT_SLOTS - 1);
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
function exactPoints(keys: Int32Array, counts: Int32Array, distinct: number): Float64Array {
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
function countBins(words: Int32Array, from: number, keys: Int32Array, counts: Int32Array): Float64Array {
  const lanes = new Int32Array(2 * BINS);
  const carried: Carried = new Map();
  for (let slot = 0; slot < EXACT_SLOTS; slot++) {
    const key = keys[slot] as number;
    if (key === -1) continue;
    const pixels = counts[slot] as number;
    const lane = laneOf(key);
    if ((lanes[lane] as number) + pixels * ONE_PIXEL > FULL) {
      // All but one: a lane of a bin that holds anything is never 0.
      const [r, g, b] = [key & 7, (key >> 8) & 7, (key >> 16) & 7];
      carry(carried, lane, pixels - 1, (pixels - 1) * r, (pixels - 1) * g, (pixels - 1) * b);
      addPixels(lanes, lane, key, 1, carried);
    } else addPixels(lanes, lane, key, pixels, carried);
  }
  for (let i = from; i < words.length; i++) {
    const word = words[i] as number;
    if (word < 0) addPixels(lanes, laneOf(word), word, 1, carried);
  }
  return binPoints(lanes, carried);
}

/** Twice the number of the bin: rrrrrgggggbbbbb0. */
function laneOf(word: number): number {
  return ((word & 0xf8) << 8) | ((word >> 5) & 0x7c0) | ((word >> 18) & 0x3e);
}

function addPixels(lanes: Int32Array, lane: number, word: number, pixels: number, carried: Carried): void {
  if ((lanes[lane] as number) >= FULL) empty(lanes, lane, carried);
  (lanes[lane] as number) += pixels * (ONE_PIXEL | (word & 7));
  (lanes[lane + 1] as number) += pixels * (((word << 8) & 0x70000) | ((word >> 16) & 7));
}

/** By lane: pixels, and sums of red, green and blue above the bin's floor. */
type Carried = Map<number, Sums>;
type Sums = readonly [number, number, number, number];
const NOTHING: Sums = [0, 0, 0, 0];

function carry(carried: Carried, lane: number, pixels: number, r: number, g: number, b: number): void {
  const sums = carried.get(lane) ?? NOTHING;
  carried.set(lane, [sums[0] + pixels, sums[1] + r, sums[2] + g, sums[3] + b]);
}

function empty(lanes: Int32Array, lane: number, carried: Carried): void {
  const pixelsAndRed = lanes[lane] as number;
  const greenAndBlue = lanes[lane + 1] as number;
  const [pixels, r, g, b] = [
    pixelsAndRed >> 16,
    pixelsAndRed & 0xffff,
    greenAndBlue >> 16,
    greenAndBlue & 0xffff,
  ];
  carry(carried, lane, pixels, r, g, b);
  lanes[lane] = 0;
  lanes[lane + 1] = 0;
}

/** Bins that hold something, their floors added back. */
function binPoints(lanes: Int32Array, carried: Carried): Float64Array {
  let occupied = 0;
  for (let lane = 0; lane < lanes.length; lane += 2) if (lanes[lane] !== 0) occupied++;
  const points = new Float64Array(FIELDS * occupied);
  let at = 0;
  for (let lane = 0; lane < lanes.length; lane += 2) {
    if (lanes[lane] === 0) continue;
    const pixelsAndRed = lanes[lane] as number;
    const greenAndBlue = lanes[lane + 1] as number;
    const [pixels, r, g, b] = (carried.size > 0 && carried.get(lane)) || NOTHING;
    const total = pixels + (pixelsAndRed >> 16);
    points[at] = total;
    points[at + 1] = r + (pixelsAndRed & 0xffff) + total * ((lane >> 8) & 0xf8);
    points[at + 2] = g + (greenAndBlue >> 16) + total * ((lane >> 3) & 0xf8);
    points[at + 3] = b + (greenAndBlue & 0xffff) + total * ((lane << 2) & 0xf8);
    at += FIELDS;
  }
  return points;
}
