import { describe, expect, it } from 'vitest';
import { isSvg, withIntrinsicSize } from './svg';

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('isSvg', () => {
  it.each([
    '<svg xmlns="http://www.w3.org/2000/svg"/>',
    '\ufeff<?xml version="1.0"?>\n<!-- <html> -->\n<svg viewBox="0 0 1 1"></svg>',
    '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "svg11.dtd" [ <!ENTITY a "b>"> ]><svg></svg>',
    '  <svg:svg xmlns:svg="http://www.w3.org/2000/svg"></svg:svg>',
  ])('says yes: %s', (text) => {
    expect(isSvg(bytesOf(text))).toBe(true);
  });

  it('reads UTF-16 by its mark', () => {
    const utf16 = Uint8Array.from([
      0xff,
      0xfe,
      ...[...'<svg/>'].flatMap((letter) => [letter.charCodeAt(0), 0]),
    ]);
    expect(isSvg(utf16)).toBe(true);
  });

  it.each(['<html><svg/></html>', 'svg', '<svgfoo/>', '', '<!-- <svg>', '<?xml', '<!DOCTYPE svg'])(
    'says no: %s',
    (text) => {
      expect(isSvg(bytesOf(text))).toBe(false);
    },
  );

  it('is not kept busy by a long prologue', () => {
    expect(isSvg(bytesOf(`${'<!-- -->'.repeat(2000)}<p>`))).toBe(false);
  });
});

describe('withIntrinsicSize', () => {
  it.each([
    ['<svg width="60" height="30"/>', 720, 360],
    ['<svg width="20000px" height="10000px"/>', 720, 360],
    ['<svg width="1in" height="4.8e1"/>', 720, 360],
    ['<svg viewBox="0 0 10 40"/>', 180, 720],
    ['<svg width="100%" height="100%" viewBox="0,0,40,10"/>', 720, 180],
    ['<svg/>', 720, 360],
    ['<svg viewBox="0 0 9000 1"/>', 720, 1],
  ])('%s', (source, width, height) => {
    expect(withIntrinsicSize(source)).toMatchObject({ width, height });
  });

  it('replaces the size, keeps all else, and gives the drawing a viewBox to be scaled by', () => {
    const source = `<!-- a > b --><svg id='x' width='60' height="30" stroke-width="2" data-q="a>b"><g width="1"/></svg>`;
    expect(withIntrinsicSize(source)?.source).toBe(
      `<!-- a > b --><svg width="720" height="360" viewBox="0 0 60 30" id='x' stroke-width="2" data-q="a>b"><g width="1"/></svg>`,
    );
  });

  it('keeps the viewBox there is', () => {
    expect(withIntrinsicSize('<svg viewBox="5 5 10 10"/>')?.source).toBe(
      '<svg width="720" height="720" viewBox="5 5 10 10"/>',
    );
  });

  it('gives up on a root that never ends', () => {
    expect(withIntrinsicSize('<svg width="3')).toBeNull();
  });
});
