/** The outbox as it is now: everything the one event stream says, as state. */

import { type DepthReading, type DrainStatus, type Incident, STREAM_URL } from '../api/client';
import { type DepthColumns, EMPTY_COLUMNS, withReading } from './depth-history';
import { type ConnectionState, type EventSourceLike, openStream } from './event-stream';

export const WINDOW_SECONDS = 120;

class Outbox {
  connection = $state<ConnectionState>('connecting');
  /** True once the stream has been live: tells "not yet" from "lost". */
  everLive = $state(false);
  depth = $state.raw<DepthReading | null>(null);
  history = $state.raw<DepthColumns>(EMPTY_COLUMNS);
  drain = $state.raw<DrainStatus | null>(null);
  incident = $state.raw<Incident | null>(null);
  /** Changes with whatever the built-in inbox receives or loses. */
  inboxChange = $state(0);
  #close: (() => void) | null = null;

  /**
   * Follows the stream while the page can be seen. A hidden one lets go of it: over HTTP/1.1 a browser has
   * six connections a site, and six forgotten tabs would leave none for the seventh. Returns the way to stop.
   */
  follow(): () => void {
    const update = (): void => {
      if (document.visibilityState === 'hidden') this.#stop();
      else this.#start();
    };
    update();
    document.addEventListener('visibilitychange', update);
    return () => {
      document.removeEventListener('visibilitychange', update);
      this.#stop();
    };
  }

  #start(): void {
    if (this.#close !== null) return;
    this.#close = openStream(() => new EventSource(STREAM_URL) as EventSourceLike, {
      onState: (state) => {
        this.connection = state === 'connecting' && this.everLive ? 'reconnecting' : state;
        if (state === 'live') this.everLive = true;
      },
      on: {
        depth: (data) => {
          const reading = data as DepthReading;
          this.depth = reading;
          this.history = withReading(this.history, reading, WINDOW_SECONDS);
        },
        drain: (data) => {
          this.drain = data as DrainStatus;
        },
        incident: (data) => {
          this.incident = data as Incident | null;
        },
        inbox: () => {
          this.inboxChange += 1;
        },
      },
    });
  }

  #stop(): void {
    this.#close?.();
    this.#close = null;
  }
}

export const outbox = new Outbox();
