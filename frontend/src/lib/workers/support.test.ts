import { describe, expect, it } from 'vitest';
import { canAnalyse, missingCapabilities } from './support';

const everything = { Worker: class {}, OffscreenCanvas: class {}, createImageBitmap: () => {} };

describe('missingCapabilities', () => {
  it('is empty where everything is there', () => {
    expect(missingCapabilities(everything)).toEqual([]);
  });

  it('names what is missing', () => {
    expect(missingCapabilities({})).toEqual(['worker', 'offscreen-canvas', 'create-image-bitmap']);
    expect(missingCapabilities({ ...everything, OffscreenCanvas: undefined })).toEqual(['offscreen-canvas']);
  });

  it('leaves the main thread able without workers, and nobody without a canvas', () => {
    expect(canAnalyse(['worker'])).toBe(true);
    expect(canAnalyse(['worker', 'offscreen-canvas'])).toBe(false);
    expect(canAnalyse(['create-image-bitmap'])).toBe(false);
  });
});
