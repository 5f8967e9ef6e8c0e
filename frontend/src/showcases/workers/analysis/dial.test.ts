import { expect, it } from 'vitest';
import { angleAt, lastTurn } from './dial';

it('turns once in two seconds', () => {
  expect(angleAt(0)).toBe(0);
  expect(angleAt(500)).toBeCloseTo(Math.PI / 2);
  expect(angleAt(2500)).toBeCloseTo(Math.PI / 2);
});

it('forgets frames older than a turn', () => {
  expect(lastTurn([0, 999, 1001, 2500], 3000)).toEqual([1001, 2500]);
});
