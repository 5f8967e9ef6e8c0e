/** A palette as files other programs read: CSS variables, JSON, GIMP .gpl, Adobe .ase. */

import type { Swatch } from './palette';

export type ExportFormat = 'css' | 'json' | 'gpl' | 'ase';

export interface ExportedFile {
  readonly fileName: string;
  readonly mimeType: string;
  readonly content: string | ArrayBuffer;
}

/** `name` is what the palette is called inside the file, and, made safe, the name of the file. */
export function exportPalette(format: ExportFormat, name: string, swatches: readonly Swatch[]): ExportedFile {
  const title = name.replace(/\s+/g, ' ').trim() || 'palette';
  const { mimeType, write } = FORMATS[format];
  return { fileName: `${slug(title)}.${format}`, mimeType, content: write(title, swatches) };
}

interface Writer {
  readonly mimeType: string;
  readonly write: (title: string, swatches: readonly Swatch[]) => string | ArrayBuffer;
}

const FORMATS: Readonly<Record<ExportFormat, Writer>> = {
  css: { mimeType: 'text/css', write: toCss },
  json: { mimeType: 'application/json', write: toJson },
  gpl: { mimeType: 'application/x-gimp-palette', write: toGimp },
  ase: { mimeType: 'application/octet-stream', write: toAdobe },
};

function slug(title: string): string {
  const ascii = title
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase();
  return (
    ascii
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-+|-+$/g, '')
      .slice(0, 60) || 'palette'
  );
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)}%`;
}

function toCss(title: string, swatches: readonly Swatch[]): string {
  const lines = swatches.map(
    ({ hex, share }, index) => `  --palette-${index + 1}: ${hex}; /* ${percent(share)} */`,
  );
  return [`/* ${title.replaceAll('*/', '* /')} */`, ':root {', ...lines, '}', ''].join('\n');
}

function toJson(title: string, swatches: readonly Swatch[]): string {
  return `${JSON.stringify({ name: title, colors: swatches }, null, 2)}\n`;
}

function toGimp(title: string, swatches: readonly Swatch[]): string {
  const column = (value: number): string => String(value).padStart(3);
  const lines = swatches.map(
    ({ r, g, b, hex, share }) => `${column(r)} ${column(g)} ${column(b)}\t${hex} ${percent(share)}`,
  );
  return ['GIMP Palette', `Name: ${title}`, `Columns: ${swatches.length}`, '#', ...lines, ''].join('\n');
}

const ASE = { groupStart: 0xc001, groupEnd: 0xc002, color: 0x0001, globalColor: 0 } as const;

/** Adobe Swatch Exchange: one group of global RGB colours. Everything is big-endian, names are UTF-16. */
function toAdobe(title: string, swatches: readonly Swatch[]): ArrayBuffer {
  const blocks = [
    block(ASE.groupStart, nameLength(title), (view) => writeName(view, title)),
    ...swatches.map(({ r, g, b, hex }) =>
      block(ASE.color, nameLength(hex) + 18, (view) => {
        const at = writeName(view, hex);
        [...'RGB '].forEach((letter, index) => {
          view.setUint8(at + index, letter.charCodeAt(0));
        });
        view.setFloat32(at + 4, r / 255);
        view.setFloat32(at + 8, g / 255);
        view.setFloat32(at + 12, b / 255);
        view.setUint16(at + 16, ASE.globalColor);
      }),
    ),
    block(ASE.groupEnd, 0, () => {}),
  ];
  const header = new DataView(new ArrayBuffer(12));
  header.setUint32(0, 0x41534546); // 'ASEF'
  header.setUint16(4, 1);
  header.setUint32(8, blocks.length);
  return concatenate([header, ...blocks]);
}

function block(type: number, length: number, write: (body: DataView) => void): DataView {
  const buffer = new ArrayBuffer(6 + length);
  const view = new DataView(buffer);
  view.setUint16(0, type);
  view.setUint32(2, length);
  write(new DataView(buffer, 6));
  return view;
}

/** A count of UTF-16 units with the closing zero among them, then the units. */
function nameLength(name: string): number {
  return 2 + 2 * (name.length + 1);
}

/** Where the next field begins. */
function writeName(view: DataView, name: string): number {
  view.setUint16(0, name.length + 1);
  for (let index = 0; index < name.length; index++) view.setUint16(2 + 2 * index, name.charCodeAt(index));
  return nameLength(name);
}

function concatenate(parts: readonly DataView[]): ArrayBuffer {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(new Uint8Array(part.buffer), at);
    at += part.byteLength;
  }
  return bytes.buffer;
}
