import { describe, expect, it } from 'vitest';
import { periodOf, report, stalls, USUAL_PERIOD } from './frames';

const steady = (count: number, period: number): number[] =>
  Array.from({ length: count }, (_, i) => i * period);

describe('report', () => {
  it('drops nothing from a steady run', () => {
    expect(report(steady(61, 16.7), 16.7)).toMatchObject({ painted: 61, dropped: 0, duration: 1002 });
  });

  it('counts the frames a gap swallowed', () => {
    const times = [0, 10, 20, 120, 130];
    expect(report(times, 10)).toEqual({ painted: 5, dropped: 9, longestGap: 100, duration: 130 });
  });

  it('takes jitter below half a period for jitter', () => {
    expect(report([0, 10, 24, 30], 10).dropped).toBe(0);
  });

  it('survives no frames at all', () => {
    expect(report([], 10)).toEqual({ painted: 0, dropped: 0, longestGap: 0, duration: 0 });
    expect(report([5], 10)).toEqual({ painted: 1, dropped: 0, longestGap: 0, duration: 0 });
  });
});

describe('periodOf', () => {
  it('measures the display', () => {
    expect(periodOf(steady(20, 8.3))).toBeCloseTo(8.3);
  });

  it('is not misled by one stall', () => {
    expect(periodOf([0, 10, 20, 30, 40, 50, 2000, 2010])).toBeCloseTo(10);
  });

  it('assumes 60 a second before it has seen enough', () => {
    expect(periodOf([0, 500])).toBe(USUAL_PERIOD);
    expect(periodOf([])).toBe(USUAL_PERIOD);
  });
});

it('finds stalls where they were', () => {
  expect(stalls([100, 110, 160, 170], 10)).toEqual([{ from: 10, to: 60 }]);
  expect(stalls(steady(10, 10), 10)).toEqual([]);
});
