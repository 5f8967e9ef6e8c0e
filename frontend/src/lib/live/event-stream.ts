/**
 * An EventSource that never gives up.
 *
 * The browser's own reconnects after a lost connection, but ends for good (CLOSED) when the server answers
 * with an error, as a proxy does while the server behind it restarts. Then a new one is opened, with backoff.
 */

export interface EventSourceLike {
  readonly readyState: number;
  onopen: (() => void) | null;
  onerror: (() => void) | null;
  addEventListener(type: string, listener: (event: MessageEvent<string>) => void): void;
  close(): void;
}

export interface StreamTiming {
  setTimeout(callback: () => void, milliseconds: number): unknown;
  clearTimeout(handle: unknown): void;
}

export type ConnectionState = 'connecting' | 'live' | 'reconnecting';

export interface StreamListeners {
  readonly onState: (state: ConnectionState) => void;
  /** One listener for each named event, given the parsed data. */
  readonly on: Readonly<Record<string, (data: unknown) => void>>;
}

const CLOSED = 2;
const FIRST_DELAY_MILLISECONDS = 1000;
const LONGEST_DELAY_MILLISECONDS = 30_000;

const browserTiming: StreamTiming = {
  setTimeout: (callback, milliseconds) => globalThis.setTimeout(callback, milliseconds),
  clearTimeout: (handle) => globalThis.clearTimeout(handle as number),
};

/** Opens the stream. Returns the way to close it. */
export function openStream(
  create: () => EventSourceLike,
  listeners: StreamListeners,
  timing: StreamTiming = browserTiming,
): () => void {
  let source: EventSourceLike | null = null;
  let retry: unknown = null;
  let failures = 0;
  listeners.onState('connecting');

  function connect(): void {
    retry = null;
    const opened = create();
    source = opened;
    opened.onopen = () => {
      failures = 0;
      listeners.onState('live');
    };
    opened.onerror = () => {
      listeners.onState('reconnecting');
      if (opened.readyState !== CLOSED || retry !== null) return;
      retry = timing.setTimeout(connect, retryDelay(failures));
      failures += 1;
    };
    for (const [name, listener] of Object.entries(listeners.on)) {
      opened.addEventListener(name, (event) => listener(JSON.parse(event.data)));
    }
  }

  connect();
  return () => {
    source?.close();
    if (retry !== null) timing.clearTimeout(retry);
  };
}

export function retryDelay(failures: number): number {
  return Math.min(FIRST_DELAY_MILLISECONDS * 2 ** failures, LONGEST_DELAY_MILLISECONDS);
}
