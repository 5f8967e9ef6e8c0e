/** What an image is and how large, read from its first bytes: asked before anything is decoded. */

import type { ImageFormat, Size } from './protocol';
import { isSvg } from './svg';

export interface ImageHeader {
  readonly format: ImageFormat;
  /** As stored, before EXIF orientation; null where the header does not say in a place we know. */
  readonly size: Size | null;
  /** The file ends before the image does. */
  readonly truncated: boolean;
}

/** Formats that browsers cannot be counted on to decode; Safari has some of them. */
const BRANDS: Readonly<Record<string, ImageFormat>> = {
  avif: 'avif',
  avis: 'avif',
  heic: 'heic',
  heix: 'heic',
  hevc: 'heic',
  heim: 'heic',
  mif1: 'heic',
  msf1: 'heic',
};

/** null: not an image of any kind known here. */
export function readHeader(bytes: Uint8Array): ImageHeader | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (startsWith(bytes, 0xff, 0xd8, 0xff)) return readJpeg(bytes, view);
  if (ascii(bytes, 1, 3) === 'PNG' && bytes[0] === 0x89) return readPng(bytes, view);
  if (/^GIF8[79]a$/.test(ascii(bytes, 0, 6))) return readGif(bytes, view);
  if (ascii(bytes, 0, 4) === 'RIFF' && ascii(bytes, 8, 4) === 'WEBP') return readWebp(bytes, view);
  if (ascii(bytes, 4, 4) === 'ftyp') return readIsoMedia(bytes, view);
  if (ascii(bytes, 0, 2) === 'BM' && bytes.length >= 14 && view.getUint32(6) === 0)
    return readBmp(bytes, view);
  if (startsWith(bytes, 0, 0, 1, 0) || startsWith(bytes, 0, 0, 2, 0)) return bare('ico');
  if (startsWith(bytes, 0x49, 0x49, 42, 0) || startsWith(bytes, 0x4d, 0x4d, 0, 42)) return bare('tiff');
  if (startsWith(bytes, 0xff, 0x0a) || ascii(bytes, 4, 4) === 'JXL ') return bare('jxl');
  if (ascii(bytes, 0, 4) === '8BPS') return bare('psd');
  if (isSvg(bytes)) return bare('svg');
  return null;
}

const bare = (format: ImageFormat): ImageHeader => ({ format, size: null, truncated: false });

function startsWith(bytes: Uint8Array, ...prefix: number[]): boolean {
  return prefix.every((value, index) => bytes[index] === value);
}

function ascii(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length));
}

function readPng(bytes: Uint8Array, view: DataView): ImageHeader {
  if (bytes.length < 24) return { format: 'png', size: null, truncated: true };
  const size = { width: view.getUint32(16), height: view.getUint32(20) };
  for (let at = 8; at + 12 <= bytes.length; ) {
    if (ascii(bytes, at + 4, 4) === 'IEND') return { format: 'png', size, truncated: false };
    at += 12 + view.getUint32(at);
  }
  return { format: 'png', size, truncated: true };
}

function readGif(bytes: Uint8Array, view: DataView): ImageHeader {
  if (bytes.length < 10) return { format: 'gif', size: null, truncated: true };
  const size = { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  // Only the first frame is looked at; a missing trailer alone does not spoil it.
  return { format: 'gif', size, truncated: bytes.length < 14 };
}

function readBmp(bytes: Uint8Array, view: DataView): ImageHeader {
  if (bytes.length < 26) return { format: 'bmp', size: null, truncated: true };
  const core = view.getUint32(14, true) === 12;
  const size = core
    ? { width: view.getUint16(18, true), height: view.getUint16(20, true) }
    : { width: Math.abs(view.getInt32(18, true)), height: Math.abs(view.getInt32(22, true)) };
  return { format: 'bmp', size, truncated: bytes.length < view.getUint32(10, true) };
}

function readWebp(bytes: Uint8Array, view: DataView): ImageHeader {
  if (bytes.length < 30) return { format: 'webp', size: null, truncated: true };
  const truncated = bytes.length < view.getUint32(4, true) + 8;
  const uint24 = (at: number): number => view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
  const sizes: Readonly<Record<string, () => Size>> = {
    'VP8 ': () => ({ width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff }),
    VP8L: () => {
      const bits = view.getUint32(21, true);
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    },
    VP8X: () => ({ width: uint24(24) + 1, height: uint24(27) + 1 }),
  };
  return { format: 'webp', size: sizes[ascii(bytes, 12, 4)]?.() ?? null, truncated };
}

/** AVIF and HEIC; the size stands in an `ispe` box, the largest of them when there are thumbnails. */
function readIsoMedia(bytes: Uint8Array, view: DataView): ImageHeader | null {
  const format = BRANDS[ascii(bytes, 8, 4)];
  if (format === undefined) return null;
  const brands = ascii(bytes, 16, Math.min(64, Math.max(0, view.getUint32(0) - 16)));
  let size: Size | null = null;
  const end = Math.min(bytes.length - 16, 65_536);
  for (let at = 0; at < end; at++) {
    if (bytes[at] !== 0x69 || ascii(bytes, at, 4) !== 'ispe') continue;
    const found = { width: view.getUint32(at + 8), height: view.getUint32(at + 12) };
    if (size === null || found.width * found.height > size.width * size.height) size = found;
  }
  return { format: brands.includes('avif') ? 'avif' : format, size, truncated: false };
}

/** Segment by segment to the start of frame, then from the scan on to the end-of-image marker. */
function readJpeg(bytes: Uint8Array, view: DataView): ImageHeader {
  let size: Size | null = null;
  let at = 2;
  while (at + 4 <= bytes.length) {
    if (bytes[at] !== 0xff) break;
    const marker = view.getUint8(at + 1);
    if (marker === 0xff || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {
      at += marker === 0xff ? 1 : 2;
      continue;
    }
    const length = view.getUint16(at + 2);
    const startsFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (startsFrame && at + 9 <= bytes.length) {
      size = { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    }
    at += 2 + length;
    if (marker === 0xda) return { format: 'jpeg', size, truncated: !endsJpeg(bytes, at) };
  }
  return { format: 'jpeg', size, truncated: true };
}

/** 0xFFD9 cannot occur inside a scan. Cameras append thumbnails and data, so all of the rest is searched. */
function endsJpeg(bytes: Uint8Array, from: number): boolean {
  for (let at = bytes.indexOf(0xff, from); at !== -1; at = bytes.indexOf(0xff, at + 1)) {
    if (bytes[at + 1] === 0xd9) return true;
  }
  return false;
}
