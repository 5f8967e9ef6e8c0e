/**
 * SVG as browsers can draw it: with a size of its own. On the text, since a DOMParser applies the page's
 * Content-Security-Policy to the drawing and reports every style in it.
 */

import { LIMITS, type Size } from './protocol';

export interface Drawing extends Size {
  readonly source: string;
}

/** An <svg> element before any other, after what XML allows ahead of it. */
export function isSvg(bytes: Uint8Array): boolean {
  const text = decodeText(bytes.subarray(0, 16_384));
  return ROOT_NAME.test(text.slice(rootAt(text)));
}

/** By its byte-order mark, else UTF-8. */
export function decodeText(bytes: Uint8Array): string {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return new TextDecoder('utf-16le').decode(bytes);
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return new TextDecoder('utf-16be').decode(bytes);
  return new TextDecoder().decode(bytes);
}

/**
 * Sets width and height in pixels, the longest edge to what is counted: a drawing loses nothing by it, and
 * one of 20,000 units needs no 400-megapixel bitmap. null: the root element never ends.
 */
export function withIntrinsicSize(text: string): Drawing | null {
  const at = rootAt(text);
  const root = ROOT_TAG.exec(text.slice(at));
  if (root === null) return null;
  const [tag, name, attributes = ''] = root;
  const { width, height } = proportions(attributes);
  const scale = LIMITS.longestEdge / Math.max(width, height);
  const size = {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
  const viewBox = attribute(attributes, 'viewBox') === null ? ` viewBox="0 0 ${width} ${height}"` : '';
  const others = attributes.replace(/\s(?:width|height)\s*=\s*(?:"[^"]*"|'[^']*')/g, '');
  const sized = `<${name} width="${size.width}" height="${size.height}"${viewBox}${others}>`;
  return { source: text.slice(0, at) + sized + text.slice(at + tag.length), ...size };
}

const ROOT_NAME = /^<(?:[\w.-]+:)?svg[\s>/]/;
const ROOT_TAG = /^<((?:[\w.-]+:)?svg)((?:"[^"]*"|'[^']*'|[^'">])*)>/;

/** Where the first element begins: behind declaration, comments, doctype. */
function rootAt(text: string): number {
  let at = 0;
  const skipTo = (end: string): void => {
    const found = text.indexOf(end, at);
    at = found === -1 ? text.length : found + end.length;
  };
  for (;;) {
    while (/\s/.test(text.charAt(at))) at++;
    if (text.startsWith('<?', at)) skipTo('?>');
    else if (text.startsWith('<!--', at)) skipTo('-->');
    else if (text.startsWith('<!DOCTYPE', at)) {
      const internalSubset = text.slice(at, text.indexOf('>', at)).includes('[');
      if (internalSubset) skipTo(']');
      skipTo('>');
    } else return at;
  }
}

function proportions(attributes: string): Size {
  const width = pixels(attribute(attributes, 'width'));
  const height = pixels(attribute(attributes, 'height'));
  if (width !== null && height !== null) return { width, height };
  const box = (attribute(attributes, 'viewBox') ?? '').trim().split(/[\s,]+/);
  const [boxWidth, boxHeight] = [Number(box[2]), Number(box[3])];
  if (boxWidth > 0 && boxHeight > 0) return { width: boxWidth, height: boxHeight };
  // What CSS gives a replaced element that says nothing.
  return { width: width ?? 300, height: height ?? 150 };
}

function attribute(attributes: string, name: string): string | null {
  const match = new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`).exec(attributes);
  return match === null ? null : (match[1] ?? match[2] ?? '');
}

/** Absolute lengths only; a percentage says nothing without a page. */
function pixels(length: string | null): number | null {
  const match = /^\s*([\d.]+(?:e[+-]?\d+)?)(px|pt|pc|mm|cm|in|)\s*$/i.exec(length ?? '');
  if (match === null) return null;
  const units: Readonly<Record<string, number>> = { pt: 4 / 3, pc: 16, mm: 96 / 25.4, cm: 96 / 2.54, in: 96 };
  const value = Number(match[1]) * (units[(match[2] ?? '').toLowerCase()] ?? 1);
  return value > 0 ? value : null;
}
