import { describe, expect, it } from 'vitest';
import { exportPalette } from './export';
import type { Swatch } from './palette';

const swatches: Swatch[] = [
  { r: 18, g: 52, b: 86, hex: '#123456', count: 3, share: 0.75 },
  { r: 255, g: 0, b: 9, hex: '#ff0009', count: 1, share: 0.25 },
];

describe('exportPalette', () => {
  it('writes CSS variables', () => {
    expect(exportPalette('css', 'Coffee', swatches)).toEqual({
      fileName: 'coffee.css',
      mimeType: 'text/css',
      content:
        '/* Coffee */\n:root {\n  --palette-1: #123456; /* 75.0% */\n  --palette-2: #ff0009; /* 25.0% */\n}\n',
    });
  });

  it('writes JSON that reads back as it was', () => {
    const { content } = exportPalette('json', 'Coffee', swatches);
    expect(JSON.parse(content as string)).toEqual({ name: 'Coffee', colors: swatches });
  });

  it('writes a GIMP palette', () => {
    expect(exportPalette('gpl', 'Coffee', swatches).content).toBe(
      'GIMP Palette\nName: Coffee\nColumns: 2\n#\n 18  52  86\t#123456 75.0%\n255   0   9\t#ff0009 25.0%\n',
    );
  });

  it('writes Adobe swatches, byte by byte as the format says', () => {
    const view = new DataView(exportPalette('ase', 'Ö', swatches).content as ArrayBuffer);
    let at = 0;
    const advance = (length: number): number => {
      at += length;
      return at - length;
    };
    const uint16 = (): number => view.getUint16(advance(2));
    const uint32 = (): number => view.getUint32(advance(4));
    const float = (): number => view.getFloat32(advance(4));
    const latin = (length: number): string =>
      Array.from({ length }, () => String.fromCharCode(view.getUint8(advance(1)))).join('');
    const name = (): string => {
      const units = Array.from({ length: uint16() }, () => uint16());
      expect(units.pop()).toBe(0);
      return String.fromCharCode(...units);
    };
    expect([latin(4), uint16(), uint16(), uint32()]).toEqual(['ASEF', 1, 0, 4]);
    expect([uint16(), uint32(), name()]).toEqual([0xc001, 6, 'Ö']);
    for (const { r, g, b, hex } of swatches) {
      expect(uint16()).toBe(0x0001);
      const end = uint32() + at;
      expect([name(), latin(4)]).toEqual([hex, 'RGB ']);
      for (const channel of [r, g, b]) expect(float()).toBe(Math.fround(channel / 255));
      expect(uint16()).toBe(0);
      expect(at).toBe(end);
    }
    expect([uint16(), uint32()]).toEqual([0xc002, 0]);
    expect(at).toBe(view.byteLength);
  });

  it('makes any name safe for the file and for the format', () => {
    expect(exportPalette('css', ' ../Müller\n*/ & Söhne ', [])).toMatchObject({
      fileName: 'muller-sohne.css',
      content: '/* ../Müller * / & Söhne */\n:root {\n}\n',
    });
    expect(exportPalette('gpl', 'a\nColumns: 9', []).content).toContain('Name: a Columns: 9\n');
    expect(exportPalette('json', '写真', []).fileName).toBe('palette.json');
    expect(exportPalette('json', '  ', []).fileName).toBe('palette.json');
  });
});
