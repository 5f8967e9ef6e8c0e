/** Bytes → ImageBitmap, on either thread; what cannot be decoded is told apart by its reason. */

import type { ImageHeader } from './image-format';
import { AnalysisError, type ImageFormat, type Size } from './protocol';
import { decodeText, withIntrinsicSize } from './svg';

/** No decoder should take this long; one that never answers must not hold the page for ever. */
const DEADLINE_MILLISECONDS = 60_000;
/** Above this a refusal is more likely for want of memory than for a fault in the file. */
const LARGE_PIXELS = 40_000_000;
const RARELY_SUPPORTED: ReadonlySet<ImageFormat> = new Set(['avif', 'heic', 'tiff', 'jxl', 'psd']);
const MIME_TYPES: Readonly<Record<ImageFormat, string>> = {
  jpeg: 'image/jpeg',
  png: 'image/png',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  bmp: 'image/bmp',
  ico: 'image/x-icon',
  svg: 'image/svg+xml',
  heic: 'image/heic',
  tiff: 'image/tiff',
  jxl: 'image/jxl',
  psd: 'image/vnd.adobe.photoshop',
};

/** Animations give their first frame. */
export async function decode(bytes: ArrayBuffer, header: ImageHeader): Promise<ImageBitmap> {
  const { format, size } = header;
  // Browsers decode SVG through an <img> only, and a worker has none.
  if (format === 'svg' && typeof document === 'undefined') throw new AnalysisError('unsupported-in-worker');
  try {
    return await withinDeadline(
      format === 'svg'
        ? decodeSvg(bytes)
        : createImageBitmap(new Blob([bytes], { type: MIME_TYPES[format] }), {
            imageOrientation: 'from-image',
            colorSpaceConversion: 'default',
          }),
    );
  } catch (cause) {
    if (cause instanceof AnalysisError) throw cause;
    throw new AnalysisError(reasonFor(format, size), String(cause), { cause });
  }
}

function reasonFor(format: ImageFormat, size: Size | null): 'unsupported' | 'too-large' | 'damaged' {
  if (RARELY_SUPPORTED.has(format)) return 'unsupported';
  if (size !== null && size.width * size.height > LARGE_PIXELS) return 'too-large';
  return 'damaged';
}

async function withinDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new AnalysisError('damaged', 'the decoder did not answer')),
      DEADLINE_MILLISECONDS,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function decodeSvg(bytes: ArrayBuffer): Promise<ImageBitmap> {
  const drawing = withIntrinsicSize(decodeText(new Uint8Array(bytes)));
  if (drawing === null) throw new AnalysisError('damaged', 'the root element never ends');
  const url = URL.createObjectURL(new Blob([drawing.source], { type: MIME_TYPES.svg }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    // Said again, for a drawing whose own styles override its attributes.
    return await createImageBitmap(image, { resizeWidth: drawing.width, resizeHeight: drawing.height });
  } finally {
    URL.revokeObjectURL(url);
  }
}
