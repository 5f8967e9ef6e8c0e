/**
 * Bytes of an image file → its palette: decode, draw small, count. ONE function for both threads, so that
 * the page compares identical work in two places.
 */

import { decode } from './decode';
import { readHeader } from './image-format';
import { averageLuminance, dominantColors } from './palette';
import {
  type Analysis,
  AnalysisError,
  type AnalysisOptions,
  type AnalysisStage,
  LIMITS,
  type Size,
  toAnalysisError,
} from './protocol';

/** `pass` counts from 1. */
export type StageListener = (stage: AnalysisStage, pass: number) => void;

/** Rejects with AnalysisError only. A Blob is read here; an ArrayBuffer is left as it is. */
export async function analyseImage(
  image: ArrayBuffer | Blob,
  options: AnalysisOptions = {},
  onStage: StageListener = () => {},
): Promise<Analysis> {
  try {
    return await analyse(image, options, onStage);
  } catch (thrown) {
    throw toAnalysisError(thrown);
  }
}

/** Refuses by size alone, before anything is read. */
export function requireSaneLength(byteLength: number): void {
  if (byteLength === 0) throw new AnalysisError('empty');
  if (byteLength > LIMITS.bytes) throw new AnalysisError('too-large', `${byteLength} bytes`);
}

export async function readBytes(image: ArrayBuffer | Blob): Promise<ArrayBuffer> {
  if (!(image instanceof Blob)) return image;
  try {
    return await image.arrayBuffer();
  } catch (cause) {
    throw new AnalysisError('unreadable', String(cause), { cause });
  }
}

async function analyse(
  image: ArrayBuffer | Blob,
  options: AnalysisOptions,
  onStage: StageListener,
): Promise<Analysis> {
  const { swatches: count = LIMITS.swatches, longestEdge = LIMITS.longestEdge, passes = 1 } = options;
  const begin = performance.now();
  requireSaneLength(image instanceof Blob ? image.size : image.byteLength);
  requireCapabilities();
  const bytes = await readBytes(image);
  const header = readHeader(new Uint8Array(bytes));
  if (header === null) throw new AnalysisError('not-an-image');
  if (header.size !== null) requireSanePixels(header.size);
  if (header.truncated) throw new AnalysisError('damaged', 'the file ends before the image does');

  const timings = { decode: 0, draw: 0, palette: 0, total: 0 };
  let result: Pick<Analysis, 'original' | 'sampled' | 'swatches' | 'luminance'> | null = null;
  onStage('decode', 1);
  const beforeDecode = performance.now();
  const bitmap = await decode(bytes, header);
  timings.decode = performance.now() - beforeDecode;
  try {
    const original = { width: bitmap.width, height: bitmap.height };
    requireSanePixels(original);
    const sampled = fit(original, longestEdge);
    // Nothing is awaited from here on. A browser decodes off the thread anyway; what holds a thread is
    // drawing and counting, and between two awaited passes it would come up for air.
    for (let pass = 1; pass <= passes; pass++) {
      onStage('draw', pass);
      const beforeDraw = performance.now();
      const pixels = draw(bitmap, sampled);
      timings.draw += performance.now() - beforeDraw;

      onStage('palette', pass);
      const beforePalette = performance.now();
      const swatches = dominantColors(pixels, count);
      const luminance = swatches.length === 0 ? null : averageLuminance(pixels);
      timings.palette += performance.now() - beforePalette;
      result = { original, sampled, swatches, luminance };
    }
  } finally {
    bitmap.close();
  }
  if (result === null) throw new RangeError(`passes must be at least 1, not ${passes}`);
  timings.total = performance.now() - begin;
  return { format: header.format, ...result, passes, timings };
}

function requireCapabilities(): void {
  if (typeof OffscreenCanvas !== 'function' || typeof createImageBitmap !== 'function') {
    throw new AnalysisError('missing-capability');
  }
}

function requireSanePixels({ width, height }: Size): void {
  if (width * height > LIMITS.pixels) throw new AnalysisError('too-large', `${width} × ${height} pixels`);
}

/** Never enlarged, never less than one pixel. */
export function fit({ width, height }: Size, longestEdge: number): Size {
  const scale = Math.min(1, longestEdge / Math.max(width, height));
  return {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
}

/** Every source comes out as sRGB: wide-gamut colours are mapped by the canvas. */
function draw(bitmap: ImageBitmap, { width, height }: Size): Uint8ClampedArray {
  const canvas = new OffscreenCanvas(width, height);
  // Kept in main memory, since it is read back at once.
  const context = canvas.getContext('2d', { willReadFrequently: true, colorSpace: 'srgb' });
  if (context === null) throw new AnalysisError('missing-capability', 'no 2d context off screen');
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, width, height);
  return context.getImageData(0, 0, width, height, { colorSpace: 'srgb' }).data;
}
