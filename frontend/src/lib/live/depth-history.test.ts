import { expect, it } from 'vitest';
import type { DepthReading } from '../api/client';
import { EMPTY_COLUMNS, peak, withReading } from './depth-history';

function reading(second: number, pending: number): DepthReading {
  return {
    at: new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString(),
    pending,
    processing: 0,
    sent: 0,
    failed: 0,
    dead: 0,
    retrying: 0,
    oldestDueAgeSeconds: null,
    enqueuedPerSecond: 0,
    settledPerSecond: 0,
    enqueuedTotal: 0,
    settledTotal: 0,
    sequence: second,
  };
}

it('keeps a window of readings in order', () => {
  let columns = EMPTY_COLUMNS;
  for (let second = 0; second < 10; second++) columns = withReading(columns, reading(second, second), 3);
  expect(columns.pending).toEqual([6, 7, 8, 9]);
  expect(columns.at).toHaveLength(4);
});

it('ignores a reading that is not newer, as a reconnected stream may repeat the last', () => {
  const columns = withReading(EMPTY_COLUMNS, reading(5, 1), 60);
  expect(withReading(columns, reading(5, 2), 60)).toBe(columns);
  expect(withReading(columns, reading(4, 2), 60)).toBe(columns);
});

it('leaves a gap where nothing was measured', () => {
  let columns = withReading(EMPTY_COLUMNS, reading(0, 4), 60);
  columns = withReading(columns, reading(20, 6), 60);
  expect(columns.pending).toEqual([4, null, 6]);
  expect(columns.at[1]).toBeGreaterThan(columns.at[0] ?? 0);
});

it('starts anew after a silence longer than the window', () => {
  let columns = withReading(EMPTY_COLUMNS, reading(0, 4), 60);
  columns = withReading(columns, reading(600, 6), 60);
  expect(columns.pending.at(-1)).toBe(6);
  expect(columns.pending).not.toContain(4);
});

it('finds the peak and takes gaps for nothing', () => {
  expect(peak([1, null, 7, 3])).toBe(7);
  expect(peak([])).toBe(0);
});
