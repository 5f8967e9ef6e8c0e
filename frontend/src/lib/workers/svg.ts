/** SVG as browsers can draw it: with a size of its own. Main thread only (DOMParser). */

import { AnalysisError, LIMITS } from './protocol';

/**
 * Sets width and height in pixels from the viewBox, and the longest edge to what is counted: a drawing has
 * no size that would be lost, and one of 20,000 units needs no 400-megapixel bitmap.
 */
export function withIntrinsicSize(source: string): string {
  const drawing = new DOMParser().parseFromString(source, 'image/svg+xml');
  const root = drawing.documentElement;
  if (drawing.querySelector('parsererror') !== null || root.localName !== 'svg') {
    throw new AnalysisError('damaged', 'not well-formed');
  }
  const { width, height } = proportions(root);
  const scale = LIMITS.longestEdge / Math.max(width, height);
  if (!root.hasAttribute('viewBox')) root.setAttribute('viewBox', `0 0 ${width} ${height}`);
  root.setAttribute('width', String(Math.max(1, width * scale)));
  root.setAttribute('height', String(Math.max(1, height * scale)));
  return new XMLSerializer().serializeToString(drawing);
}

function proportions(root: Element): { width: number; height: number } {
  const width = pixels(root.getAttribute('width'));
  const height = pixels(root.getAttribute('height'));
  if (width !== null && height !== null) return { width, height };
  const [, , boxWidth = 0, boxHeight = 0] = (root.getAttribute('viewBox') ?? '').split(/[\s,]+/).map(Number);
  if (boxWidth > 0 && boxHeight > 0) return { width: boxWidth, height: boxHeight };
  // What CSS gives a replaced element that says nothing.
  return { width: width ?? 300, height: height ?? 150 };
}

/** Absolute lengths only; a percentage says nothing without a page. */
function pixels(length: string | null): number | null {
  const match = /^\s*([\d.]+(?:e[+-]?\d+)?)\s*(px|pt|pc|mm|cm|in|)\s*$/i.exec(length ?? '');
  if (match === null) return null;
  const units: Readonly<Record<string, number>> = { pt: 4 / 3, pc: 16, mm: 96 / 25.4, cm: 96 / 2.54, in: 96 };
  const value = Number(match[1]) * (units[(match[2] ?? '').toLowerCase()] ?? 1);
  return value > 0 ? value : null;
}
