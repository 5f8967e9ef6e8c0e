/** Runs a refresh after each request for one: never two at once, never more often than stated, never one lost. */

export interface Refresher {
  request(): void;
  stop(): void;
}

export function createRefresher(refresh: () => Promise<void>, everyMilliseconds: number): Refresher {
  let running = false;
  let wanted = false;
  let stopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function run(): Promise<void> {
    running = true;
    wanted = false;
    await refresh();
    // The pause is part of the run: what is requested meanwhile is answered once, after it.
    timer = setTimeout(() => {
      running = false;
      if (wanted && !stopped) void run();
    }, everyMilliseconds);
  }

  return {
    request() {
      wanted = true;
      if (!running && !stopped) void run();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
