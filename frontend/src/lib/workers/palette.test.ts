import { readFileSync } from 'node:fs';
import { inflateSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { averageLuminance, dominantColors, type Swatch } from './palette';

interface Vector {
  readonly name: string;
  readonly count: number;
  readonly rgbaDeflated: string;
  readonly swatches: readonly Swatch[];
  readonly luminance: number;
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../../tests/vectors/palette/vectors.json', import.meta.url), 'utf8'),
) as Vector[];

const pixelsOf = (vector: Vector): Uint8Array =>
  new Uint8Array(inflateSync(Buffer.from(vector.rgbaDeflated, 'base64')));

const image = (...pixels: readonly (readonly [number, number, number, number])[]): Uint8ClampedArray =>
  Uint8ClampedArray.from(pixels.flat());

/** Repeatable noise: a linear congruential generator. */
function noise(pixels: number, levels: number): Uint8ClampedArray {
  const bytes = new Uint8ClampedArray(4 * pixels);
  let state = 1;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] =
      i % 4 === 3 ? 255 : Math.floor(((state >>> 8) / 2 ** 24) * levels) * Math.floor(255 / (levels - 1));
  }
  return bytes;
}

describe('the shared vectors', () => {
  it.each(vectors)('$name', (vector) => {
    const pixels = pixelsOf(vector);
    expect(dominantColors(pixels, vector.count)).toEqual(vector.swatches);
    expect(averageLuminance(pixels)).toBe(vector.luminance);
  });
});

describe('dominantColors', () => {
  it('gives a flat image exactly its colour', () => {
    const flat = new Uint8ClampedArray(4 * 5000);
    for (let i = 0; i < flat.length; i += 4) flat.set([18, 52, 86, 255], i);
    expect(dominantColors(flat)).toEqual([{ r: 18, g: 52, b: 86, hex: '#123456', count: 5000, share: 1 }]);
  });

  it('gives two colours exactly, the larger share first', () => {
    const swatches = dominantColors(
      image([255, 0, 0, 255], [0, 0, 255, 255], [0, 0, 255, 255], [0, 0, 255, 255]),
    );
    expect(swatches.map(({ hex, count, share }) => [hex, count, share])).toEqual([
      ['#0000ff', 3, 0.75],
      ['#ff0000', 1, 0.25],
    ]);
  });

  it('keeps two colours apart that differ by one step', () => {
    const swatches = dominantColors(image([8, 8, 8, 255], [9, 8, 8, 255]));
    expect(swatches.map(({ hex }) => hex)).toEqual(['#080808', '#090808']);
  });

  it('answers a single pixel', () => {
    expect(dominantColors(image([1, 2, 3, 255])).map(({ hex }) => hex)).toEqual(['#010203']);
  });

  it('takes nothing below half opacity for a colour', () => {
    expect(dominantColors(image([255, 0, 0, 127], [0, 0, 0, 0]))).toEqual([]);
    expect(dominantColors(image([255, 0, 0, 127], [0, 255, 0, 128])).map(({ hex }) => hex)).toEqual([
      '#00ff00',
    ]);
  });

  it('has nothing to say about no pixels', () => {
    expect(dominantColors(new Uint8Array())).toEqual([]);
  });

  it('gives as many swatches as there are colours when more are asked, none twice', () => {
    const five = image(...[0, 60, 120, 180, 240].map((value) => [value, value, 0, 255] as const));
    const swatches = dominantColors(five, 12);
    expect(new Set(swatches.map(({ hex }) => hex)).size).toBe(5);
    expect(swatches).toHaveLength(5);
  });

  it('gives as many as asked when there are more', () => {
    for (const count of [1, 2, 6, 40]) expect(dominantColors(noise(9000, 256), count)).toHaveLength(count);
  });

  it.each([
    ['few colours', 4],
    ['many colours', 256],
  ])('does not depend on the order of the pixels: %s', (_, levels) => {
    const pixels = noise(9000, levels);
    const reversed = new Uint8ClampedArray(pixels.length);
    for (let i = 0; i < pixels.length; i += 4) {
      reversed.set(pixels.subarray(i, i + 4), pixels.length - 4 - i);
    }
    expect(dominantColors(reversed)).toEqual(dominantColors(pixels));
  });

  it('accounts for every opaque pixel', () => {
    const pixels = noise(20_000, 256);
    for (let i = 3; i < pixels.length; i += 40) pixels[i] = 20;
    const swatches = dominantColors(pixels);
    expect(swatches.reduce((sum, { count }) => sum + count, 0)).toBe(18_000);
    expect(swatches.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 12);
    const shares = swatches.map(({ share }) => share);
    expect(shares).toEqual(shares.toSorted((a, b) => b - a));
  });

  it('counts on past what one bin holds at once', () => {
    // 5,000 colours to leave exact counting behind, then more pixels of one colour than a lane carries.
    const many = noise(8000, 256);
    const pixels = new Uint8ClampedArray(many.length + 4 * 50_000);
    pixels.set(many);
    for (let i = many.length; i < pixels.length; i += 4) pixels.set([15, 23, 31, 255], i);
    const [first] = dominantColors(pixels, 64);
    expect(first).toMatchObject({ hex: '#0f171f' });
    expect(first?.count).toBeGreaterThanOrEqual(50_000);
  });

  it('reads bytes that do not start on a multiple of four', () => {
    const shifted = new Uint8Array(9).subarray(1);
    shifted.set([1, 2, 3, 255, 1, 2, 3, 255]);
    expect(dominantColors(shifted)).toMatchObject([{ hex: '#010203', count: 2 }]);
  });

  it('leaves the pixels as they were', () => {
    const pixels = noise(9000, 256);
    const before = pixels.slice();
    dominantColors(pixels);
    expect(pixels).toEqual(before);
  });

  it('refuses a senseless count and half a pixel', () => {
    for (const count of [0, -1, 1.5, 257, Number.NaN]) {
      expect(() => dominantColors(new Uint8Array(4), count)).toThrow(RangeError);
    }
    expect(() => dominantColors(new Uint8Array(6))).toThrow(RangeError);
  });
});

describe('averageLuminance', () => {
  it('is 0 for black, 1 for white and 0 where nothing is opaque', () => {
    expect(averageLuminance(image([0, 0, 0, 255]))).toBe(0);
    expect(averageLuminance(image([255, 255, 255, 255], [255, 255, 255, 255]))).toBe(1);
    expect(averageLuminance(image([255, 255, 255, 127]))).toBe(0);
  });

  it('weighs the channels as WCAG does, in linear light', () => {
    expect(averageLuminance(image([255, 0, 0, 255]))).toBe(0.2126);
    expect(averageLuminance(image([0, 255, 0, 255]))).toBe(0.7152);
    expect(averageLuminance(image([188, 188, 188, 255]))).toBeCloseTo(0.5029, 4);
  });

  it('averages the light, not the bytes', () => {
    expect(averageLuminance(image([0, 0, 0, 255], [255, 255, 255, 255]))).toBe(0.5);
  });
});
