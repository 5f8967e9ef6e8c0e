/** Watches the frames this thread paints, by requestAnimationFrame. */

import { periodOf } from './frames';

const IDLE_FRAMES = 30;

export interface Recording {
  readonly times: readonly number[];
  readonly period: number;
}

export interface FrameMeter {
  /** Frames painted in the last second. */
  rate(): number;
  /** Records the frames around `work`: one before it, all during it, two after it. */
  record<Result>(
    work: () => Promise<Result>,
  ): Promise<{ outcome: PromiseSettledResult<Result>; recording: Recording }>;
  /** Out of sight no frame is asked for, unless one is recorded: a dial that nobody sees costs nothing. */
  setVisible(visible: boolean): void;
  stop(): void;
}

/** `onFrame` is given the time at which this thread came to paint, which a blocked thread does late. */
export function startFrameMeter(onFrame: (now: number) => void): FrameMeter {
  let recent: number[] = [];
  let recorded: number[] | null = null;
  let visible = true;
  let handle: number | null = null;
  ask();

  function ask(): void {
    if (handle === null && (visible || recorded !== null)) handle = requestAnimationFrame(frame);
  }

  function frame(): void {
    handle = null;
    // The callback's own argument is when the frame was due; what the eye sees is when it came.
    const now = performance.now();
    recent.push(now);
    if (recent.length > 300) recent = recent.slice(-150);
    recorded?.push(now);
    onFrame(now);
    ask();
  }

  return {
    rate() {
      const since = performance.now() - 1000;
      return recent.filter((time) => time >= since).length;
    },
    async record(work) {
      const period = periodOf(recent.slice(-IDLE_FRAMES));
      await nextFrame();
      const times: number[] = [performance.now()];
      recorded = times;
      ask();
      const [outcome] = await Promise.allSettled([work()]);
      await nextFrame();
      await nextFrame();
      recorded = null;
      return { outcome, recording: { times, period } };
    },
    setVisible(now) {
      visible = now;
      ask();
    },
    stop() {
      visible = false;
      if (handle !== null) cancelAnimationFrame(handle);
    },
  };
}

/** Settles after the next frame, or soon in a page that paints none because nobody sees it. */
export function nextFrame(): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, 250);
    const handle = requestAnimationFrame(done);
    function done(): void {
      clearTimeout(timer);
      cancelAnimationFrame(handle);
      resolve();
    }
  });
}
