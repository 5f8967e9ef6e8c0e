import { beforeEach, describe, expect, it } from 'vitest';
import { type ConnectionState, type EventSourceLike, openStream, retryDelay } from './event-stream';

/** Behaves as the specification says; a test plays the network. */
class PlayedSource implements EventSourceLike {
  readyState = 0;
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  readonly #listeners = new Map<string, (event: MessageEvent<string>) => void>();

  addEventListener(type: string, listener: (event: MessageEvent<string>) => void): void {
    this.#listeners.set(type, listener);
  }

  close(): void {
    this.readyState = 2;
  }

  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  lose(): void {
    this.readyState = 0;
    this.onerror?.();
  }

  refuse(): void {
    this.readyState = 2;
    this.onerror?.();
  }

  send(type: string, data: string): void {
    this.#listeners.get(type)?.({ data } as MessageEvent<string>);
  }
}

let sources: PlayedSource[];
let waiting: { callback: () => void; milliseconds: number }[];
let states: ConnectionState[];
let depths: unknown[];

beforeEach(() => {
  sources = [];
  waiting = [];
  states = [];
  depths = [];
});

function open(): { close: () => void; newest: () => PlayedSource } {
  const close = openStream(
    () => {
      const source = new PlayedSource();
      sources.push(source);
      return source;
    },
    { onState: (state) => states.push(state), on: { depth: (data) => depths.push(data) } },
    {
      setTimeout: (callback, milliseconds) => waiting.push({ callback, milliseconds }),
      clearTimeout: () => waiting.splice(0),
    },
  );
  return { close, newest: () => sources[sources.length - 1] as PlayedSource };
}

describe('openStream', () => {
  it('passes on parsed events by their name', () => {
    const { newest } = open();
    newest().open();
    newest().send('depth', '{"pending":3}');
    newest().send('drain', '{}');
    expect(depths).toEqual([{ pending: 3 }]);
    expect(states).toEqual(['connecting', 'live']);
  });

  it('leaves a lost connection to the browser', () => {
    const { newest } = open();
    newest().open();
    newest().lose();
    expect(states.at(-1)).toBe('reconnecting');
    expect(waiting).toHaveLength(0);
    newest().open();
    expect(states.at(-1)).toBe('live');
    expect(sources).toHaveLength(1);
  });

  it('opens anew, ever later, when the server answers with an error', () => {
    const { newest } = open();
    newest().refuse();
    waiting[0]?.callback();
    newest().refuse();
    expect(waiting.map((entry) => entry.milliseconds)).toEqual([1000, 2000]);
    waiting[1]?.callback();
    newest().open();
    expect(sources).toHaveLength(3);
    newest().refuse();
    expect(waiting[2]?.milliseconds, 'a success starts the curve again').toBe(1000);
  });

  it('does not come back once closed', () => {
    const { close, newest } = open();
    newest().refuse();
    close();
    expect(waiting).toHaveLength(0);
    expect(newest().readyState).toBe(2);
  });
});

it('waits at most half a minute', () => {
  expect(retryDelay(0)).toBe(1000);
  expect(retryDelay(20)).toBe(30_000);
});
