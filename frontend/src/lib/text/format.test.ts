import { describe, expect, it } from 'vitest';
import {
  formatBytes,
  formatDuration,
  formatMilliseconds,
  formatMoment,
  formatPercent,
  shortId,
} from './format';

const plain = (text: string): string => text.replaceAll(/[\u202f\u00a0]/g, ' ');

describe('formatDuration', () => {
  it.each([
    [0, '0 s'],
    [0.4, '0 s'],
    [-3, '0 s'],
    [30, '30 s'],
    [59.6, '1 min'],
    [120, '2 min'],
    [125, '2 min 5 s'],
    [3600, '1 h'],
    [3840, '1 h 4 min'],
  ])('writes %d seconds as %s', (seconds, text) => {
    expect(plain(formatDuration(seconds))).toBe(text);
  });
});

it('keeps milliseconds meaningful at every magnitude', () => {
  expect(plain(formatMilliseconds(0.043, 'en'))).toBe('0.04 ms');
  expect(plain(formatMilliseconds(4.25, 'de'))).toBe('4,3 ms');
  expect(plain(formatMilliseconds(1234.5, 'en'))).toBe('1,235 ms');
});

it('writes bytes in full, since the point is that they fall to nothing', () => {
  expect(plain(formatBytes(53806, 'en'))).toBe('53,806 bytes');
  expect(plain(formatBytes(0, 'de'))).toBe('0 Byte');
});

it('writes shares in the notation of the language', () => {
  expect(plain(formatPercent(0.4267, 'en'))).toBe('42.7%');
  expect(plain(formatPercent(0.4267, 'de'))).toBe('42,7 %');
});

it('names the day only for another day', () => {
  const now = new Date(2026, 4, 20, 12);
  expect(formatMoment(new Date(2026, 4, 20, 9, 5).toISOString(), 'de', now)).toBe('09:05:00');
  expect(formatMoment(new Date(2026, 4, 19, 9, 5).toISOString(), 'de', now)).toContain('19.05.2026');
});

it('shortens an id to the end that differs', () => {
  expect(shortId('0197f2a4-0000-7000-8000-00000a1b2c3d')).toBe('0a1b2c3d');
});
