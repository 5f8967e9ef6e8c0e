/** What a list of painted frames says about how smooth it was: arithmetic, no browser. */

export interface FrameReport {
  /** Frames painted, the one before the work and the one after it included. */
  readonly painted: number;
  /** Frames the display could have shown and did not get. */
  readonly dropped: number;
  /** Milliseconds. */
  readonly longestGap: number;
  /** From the first frame to the last. */
  readonly duration: number;
}

export const USUAL_PERIOD = 1000 / 60;

export function gapsOf(times: readonly number[]): number[] {
  return times.slice(1).map((time, index) => time - (times[index] ?? time));
}

/** The time between frames when nothing is in the way. A handful of odd frames does not move the median. */
export function periodOf(idleTimes: readonly number[]): number {
  const gaps = gapsOf(idleTimes).sort((a, b) => a - b);
  const middle = gaps[Math.floor(gaps.length / 2)];
  return gaps.length < 5 || middle === undefined || middle <= 0 ? USUAL_PERIOD : middle;
}

export function report(times: readonly number[], period: number): FrameReport {
  const gaps = gapsOf(times);
  return {
    painted: times.length,
    dropped: gaps.reduce((sum, gap) => sum + Math.max(0, Math.round(gap / period) - 1), 0),
    longestGap: gaps.reduce((longest, gap) => Math.max(longest, gap), 0),
    duration: (times.at(-1) ?? 0) - (times[0] ?? 0),
  };
}

export interface Stall {
  readonly from: number;
  readonly to: number;
}

/** Gaps of at least `frames` periods, relative to the first frame. */
export function stalls(times: readonly number[], period: number, frames = 3): Stall[] {
  const start = times[0] ?? 0;
  return gapsOf(times).flatMap((gap, index) => {
    const from = (times[index] ?? start) - start;
    return gap >= frames * period ? [{ from, to: from + gap }] : [];
  });
}
