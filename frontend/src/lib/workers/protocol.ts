/** What is said between the page and the image-analysis worker, and what both threads answer. */

import type { Swatch } from './palette';

export type { Swatch };

/** Why an image gave no palette. The page has the words; these are only their keys. */
export const ANALYSIS_ERROR_CODES = [
  /** Zero bytes. */
  'empty',
  /** The file could not be read: moved, changed or forbidden since it was picked. */
  'unreadable',
  /** The content is not an image, whatever its name says. */
  'not-an-image',
  /** An image, but truncated or corrupt. */
  'damaged',
  /** More bytes or pixels than LIMITS allows, or than this device can decode. */
  'too-large',
  /** A real image format that this browser cannot decode (HEIC, TIFF, JPEG XL, PSD). */
  'unsupported',
  /** Only the page's own thread can decode it (SVG). The client never lets this one out. */
  'unsupported-in-worker',
  /** OffscreenCanvas or createImageBitmap is missing: see support.ts. */
  'missing-capability',
  /** The caller's AbortSignal fired, or the client was disposed of. `cause` is the signal's reason. */
  'cancelled',
  /** The worker's script did not load (network, policy, old deployment). */
  'worker-unavailable',
  /** The worker stopped answering and was ended. */
  'worker-unresponsive',
  /** The worker threw outside an analysis, or a message could not be read. */
  'worker-crashed',
  /** A fault of ours: anything not foreseen above. `cause` has it. */
  'internal',
] as const;

export type AnalysisErrorCode = (typeof ANALYSIS_ERROR_CODES)[number];

export class AnalysisError extends Error {
  override readonly name = 'AnalysisError';
  readonly code: AnalysisErrorCode;

  /** `detail` is for the console and the tests, never for the reader of the page. */
  constructor(code: AnalysisErrorCode, detail = '', options?: ErrorOptions) {
    super(detail === '' ? code : `${code}: ${detail}`, options);
    this.code = code;
  }
}

/** Anything thrown, as the one error the page knows. */
export function toAnalysisError(thrown: unknown): AnalysisError {
  if (thrown instanceof AnalysisError) return thrown;
  return new AnalysisError('internal', String(thrown), { cause: thrown });
}

export const LIMITS = {
  bytes: 256 * 1024 * 1024,
  /** Read from the header before anything is decoded; room for the largest cameras (102 megapixels). */
  pixels: 120_000_000,
  /** The image is drawn down to this before it is counted. */
  longestEdge: 720,
  swatches: 6,
} as const;

export type ImageFormat =
  | 'jpeg'
  | 'png'
  | 'gif'
  | 'webp'
  | 'avif'
  | 'bmp'
  | 'ico'
  | 'svg'
  | 'heic'
  | 'tiff'
  | 'jxl'
  | 'psd';

/** In the order in which they happen. */
export type AnalysisStage = 'decode' | 'draw' | 'palette';

export interface AnalysisOptions {
  /** Swatches asked for; default LIMITS.swatches. */
  readonly swatches?: number;
  /** Default LIMITS.longestEdge. */
  readonly longestEdge?: number;
  /** How often draw → palette is repeated after the one decode; default 1. Timings are sums over all passes. */
  readonly passes?: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Timings {
  readonly decode: number;
  readonly draw: number;
  readonly palette: number;
  /** From the call to the answer, on the thread that did the work. */
  readonly total: number;
}

export interface Analysis {
  readonly format: ImageFormat;
  /** As a viewer shows it: EXIF orientation applied. */
  readonly original: Size;
  /** What was counted. */
  readonly sampled: Size;
  /** Largest share first; empty when every pixel is transparent. */
  readonly swatches: readonly Swatch[];
  /** WCAG relative luminance, 0..1; null when every pixel is transparent. */
  readonly luminance: number | null;
  readonly passes: number;
  /** Milliseconds. */
  readonly timings: Timings;
}

// ── messages ────────────────────────────────────────────────────────────────────────────────────

export interface AnalyseRequest {
  readonly type: 'analyse';
  readonly id: number;
  readonly bytes: ArrayBuffer;
  readonly options: AnalysisOptions;
}

export type WorkerReply =
  /** Sent once, when the script has loaded: silence instead is how a broken chunk is noticed. */
  | { readonly type: 'ready' }
  /** `at` is performance.timeOrigin + performance.now() when the bytes arrived. */
  | { readonly type: 'accepted'; readonly id: number; readonly at: number }
  | { readonly type: 'stage'; readonly id: number; readonly stage: AnalysisStage; readonly pass: number }
  | { readonly type: 'done'; readonly id: number; readonly analysis: Analysis }
  | {
      readonly type: 'failed';
      readonly id: number;
      readonly code: AnalysisErrorCode;
      readonly detail: string;
    };

export type HandOffMode = 'transfer' | 'clone';

/** What became of the sender's bytes. */
export interface HandOff {
  readonly mode: HandOffMode;
  readonly byteLengthBefore: number;
  /** 0 after a transfer; unchanged after a clone. */
  readonly byteLengthAfter: number;
  /** How long postMessage held the sending thread: what a clone costs the page. */
  readonly milliseconds: number;
  /** From before postMessage until the worker had the bytes in hand. */
  readonly arrivalMilliseconds: number;
}

export interface ClientAnalysis {
  readonly analysis: Analysis;
  /** 'main' only for what no worker can decode (SVG). */
  readonly thread: 'worker' | 'main';
  /** null when the bytes never left the main thread. */
  readonly handOff: HandOff | null;
}
