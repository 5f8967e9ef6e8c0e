import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createRefresher } from './refresher';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function counted(): { refresh: () => Promise<void>; runs: () => number; finish: () => void } {
  let runs = 0;
  let finish = (): void => {};
  return {
    refresh: () => {
      runs += 1;
      return new Promise((resolve) => {
        finish = resolve;
      });
    },
    runs: () => runs,
    finish: () => finish(),
  };
}

it('runs at once, and a burst of requests once more', async () => {
  const work = counted();
  const refresher = createRefresher(work.refresh, 500);
  refresher.request();
  expect(work.runs()).toBe(1);
  for (let i = 0; i < 20; i++) refresher.request();
  work.finish();
  await vi.advanceTimersByTimeAsync(499);
  expect(work.runs()).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(work.runs()).toBe(2);
});

it('rests when nothing is asked for', async () => {
  const work = counted();
  const refresher = createRefresher(work.refresh, 500);
  refresher.request();
  work.finish();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(work.runs()).toBe(1);
});

it('does nothing once stopped', async () => {
  const work = counted();
  const refresher = createRefresher(work.refresh, 500);
  refresher.request();
  refresher.request();
  work.finish();
  await vi.advanceTimersByTimeAsync(1);
  refresher.stop();
  refresher.request();
  await vi.advanceTimersByTimeAsync(5000);
  expect(work.runs()).toBe(1);
});
