import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readHeader } from './image-format';

const photo = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../../assets/photos/${name}`, import.meta.url)));
const text = (content: string): Uint8Array => new TextEncoder().encode(content);
const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'string' ? [...text(part)] : part)));
const zeros = (count: number): number[] => new Array<number>(count).fill(0);

describe('readHeader', () => {
  it.each([
    ['coffee.jpg', 600, 400],
    ['astronaut.jpg', 512, 512],
    ['chelsea.jpg', 451, 300],
  ])('reads the size of a progressive JPEG: %s', (name, width, height) => {
    expect(readHeader(photo(name))).toEqual({ format: 'jpeg', size: { width, height }, truncated: false });
  });

  it('sees that a JPEG was cut, wherever it was', () => {
    const whole = photo('coffee.jpg');
    for (const length of [4, 100, 1000, whole.length >> 1, whole.length - 2]) {
      expect(readHeader(whole.subarray(0, length))).toMatchObject({ format: 'jpeg', truncated: true });
    }
  });

  it('takes data appended to a JPEG for no harm', () => {
    expect(readHeader(bytes([...photo('coffee.jpg')], 'maker notes'))).toMatchObject({ truncated: false });
  });

  it('is not fooled by the end of a thumbnail inside a cut JPEG', () => {
    const thumbnail = [0xff, 0xe1, 0, 6, 0xff, 0xd8, 0xff, 0xd9];
    expect(readHeader(bytes([0xff, 0xd8], thumbnail, [0xff, 0xda, 0, 2, 1, 2, 3]))?.truncated).toBe(true);
  });

  it('reads PNG, whole and cut', () => {
    const head = [0x89, ...text('PNG\r\n\x1a\n'), 0, 0, 0, 13, ...text('IHDR'), 0, 0, 3, 0xe8, 0, 0, 0, 7];
    const ihdr = [16, 6, 0, 0, 0, ...zeros(4)];
    const size = { width: 1000, height: 7 };
    const end = [0, 0, 0, 0, ...text('IEND'), ...zeros(4)];
    expect(readHeader(bytes(head, ihdr, end))).toEqual({ format: 'png', size, truncated: false });
    expect(readHeader(bytes(head, ihdr))).toEqual({ format: 'png', size, truncated: true });
    expect(readHeader(bytes(head).subarray(0, 12))).toEqual({ format: 'png', size: null, truncated: true });
  });

  it('reads GIF', () => {
    const gif = bytes('GIF89a', [64, 1, 240, 0], zeros(8));
    expect(readHeader(gif)).toEqual({ format: 'gif', size: { width: 320, height: 240 }, truncated: false });
    expect(readHeader(text('GIF89a'))?.truncated).toBe(true);
  });

  it('reads the three kinds of WebP', () => {
    const webp = (kind: string, ...payload: number[]): Uint8Array => {
      const body = bytes('WEBP', kind, zeros(4), payload, zeros(20));
      return bytes('RIFF', [body.length, 0, 0, 0], [...body]);
    };
    const size = { width: 300, height: 200 };
    expect(readHeader(webp('VP8 ', 0, 0, 0, 0x9d, 1, 0x2a, 44, 1, 200, 0))?.size).toEqual(size);
    expect(readHeader(webp('VP8L', 0x2f, 0x2b, 0xc1, 0x31, 0))?.size).toEqual(size);
    expect(readHeader(webp('VP8X', 0, 0, 0, 0, 43, 1, 0, 199, 0, 0))?.size).toEqual({
      width: 300,
      height: 200,
    });
    expect(readHeader(webp('VP8X').subarray(0, 35))?.truncated).toBe(true);
  });

  it('reads AVIF and HEIC, the largest picture in them', () => {
    const ispe = (width: number, height: number): number[] => [
      ...[0, 0, 0, 20, ...text('ispe'), ...zeros(4)],
      ...[0, 0, width >> 8, width & 255, 0, 0, height >> 8, height & 255],
    ];
    const file = (brand: string) =>
      bytes([0, 0, 0, 20], 'ftyp', brand, zeros(4), 'mif1', ispe(160, 120), ispe(4000, 3000), zeros(20));
    expect(readHeader(file('avif'))).toMatchObject({ format: 'avif', size: { width: 4000, height: 3000 } });
    expect(readHeader(file('heic'))).toMatchObject({ format: 'heic', size: { width: 4000, height: 3000 } });
    expect(readHeader(file('isom'))).toBeNull();
  });

  it('reads BMP, upside down or not', () => {
    const bmp = bytes(
      'BM',
      [58, 0, 0, 0],
      zeros(4),
      [54, 0, 0, 0, 40, 0, 0, 0, 3, 0, 0, 0, 254, 255, 255, 255],
    );
    expect(readHeader(bytes([...bmp], zeros(40)))).toEqual({
      format: 'bmp',
      size: { width: 3, height: 2 },
      truncated: false,
    });
  });

  it.each([
    ['tiff', bytes([0x49, 0x49, 42, 0], zeros(20))],
    ['jxl', bytes([0xff, 0x0a], zeros(20))],
    ['psd', bytes('8BPS', zeros(20))],
    ['ico', bytes([0, 0, 1, 0, 1, 0], zeros(20))],
  ])('knows %s by name', (format, content) => {
    expect(readHeader(content)).toEqual({ format, size: null, truncated: false });
  });

  it.each([
    ['text', text('Dear Sir or Madam')],
    ['HTML', text('<!DOCTYPE html><html><svg></svg></html>')],
    ['PDF', text('%PDF-1.7')],
    ['a ZIP archive', text('PK\x03\x04 and so on')],
    ['a lone byte', bytes([0xff])],
    ['nothing', bytes()],
  ])('takes %s for no image', (_, content) => {
    expect(readHeader(content)).toBeNull();
  });

  it('survives every prefix of a real file', () => {
    const whole = photo('chelsea.jpg');
    for (let length = 0; length < 700; length++)
      expect(() => readHeader(whole.subarray(0, length))).not.toThrow();
  });
});
