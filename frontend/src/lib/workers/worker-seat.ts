/** One place for one worker: starts it when needed, keeps it while it is well, ends it when it is not. */

import {
  type AnalyseRequest,
  type Analysis,
  AnalysisError,
  type AnalysisOptions,
  type AnalysisStage,
  type HandOff,
  type HandOffMode,
  type WorkerReply,
} from './protocol';

/** The part of Worker that is used, so that tests can bring node:worker_threads. */
export interface WorkerLike {
  postMessage(message: unknown, transfer: Transferable[]): void;
  terminate(): unknown;
  addEventListener(type: 'message' | 'messageerror' | 'error', listener: (event: Event) => void): void;
}

export interface Assignment {
  readonly id: number;
  readonly bytes: ArrayBuffer;
  readonly options: AnalysisOptions;
  readonly mode: HandOffMode;
  readonly onStage: (stage: AnalysisStage, pass: number) => void;
}

export interface Timeouts {
  readonly start: number;
  readonly silence: number;
}

export class WorkerSeat {
  /** Set and cleared by the pool. */
  busy = false;
  readonly #factory: () => WorkerLike;
  readonly #timeouts: Timeouts;
  #worker: WorkerLike | null = null;
  #ready: Promise<WorkerLike> | null = null;
  #ending: AnalysisError | null = null;
  /** Ends whatever waits for the present worker. */
  #fail: (error: AnalysisError) => void = () => {};
  #listen: (reply: WorkerReply) => void = () => {};

  constructor(factory: () => WorkerLike, timeouts: Timeouts) {
    this.#factory = factory;
    this.#timeouts = timeouts;
  }

  async run(assignment: Assignment): Promise<{ analysis: Analysis; handOff: HandOff }> {
    const worker = await this.#start();
    // Ended between its first word and now: nobody would answer.
    if (worker !== this.#worker) throw this.#ending ?? new AnalysisError('worker-crashed');
    return await this.#hand(worker, assignment);
  }

  /** Ends the worker and rejects what it was doing. The next run begins with a new one. */
  end(error: AnalysisError): void {
    const fail = this.#fail;
    this.#ending = error;
    this.#worker?.terminate();
    this.#worker = null;
    this.#ready = null;
    this.#fail = () => {};
    this.#listen = () => {};
    fail(error);
  }

  #start(): Promise<WorkerLike> {
    this.#ready ??= new Promise<WorkerLike>((resolve, reject) => {
      const unavailable = (detail: string, cause?: unknown): void =>
        this.end(new AnalysisError('worker-unavailable', detail, { cause }));
      const timer = setTimeout(
        () => unavailable(`no word from the worker's script in ${this.#timeouts.start} ms`),
        this.#timeouts.start,
      );
      this.#fail = (error) => {
        clearTimeout(timer);
        reject(error);
      };
      let worker: WorkerLike;
      try {
        worker = this.#factory();
      } catch (cause) {
        // end() clears #ready, but this executor runs before it is set: so not before the next turn.
        queueMicrotask(() => unavailable(String(cause), cause));
        return;
      }
      this.#worker = worker;
      let started = false;
      const onlyWhilePresent =
        (react: (event: Event) => void) =>
        (event: Event): void => {
          if (this.#worker === worker) react(event);
        };
      const crash = onlyWhilePresent((event) => {
        // Else the browser reports it once more, as an error of the page.
        event.preventDefault();
        const detail = messageOf(event);
        if (started) this.end(new AnalysisError('worker-crashed', detail));
        else unavailable(detail);
      });
      worker.addEventListener('error', crash);
      worker.addEventListener('messageerror', crash);
      worker.addEventListener(
        'message',
        onlyWhilePresent((event) => {
          const reply = (event as MessageEvent<WorkerReply>).data;
          if (reply.type !== 'ready') return this.#listen(reply);
          started = true;
          clearTimeout(timer);
          resolve(worker);
        }),
      );
    });
    return this.#ready;
  }

  #hand(worker: WorkerLike, { id, bytes, options, mode, onStage }: Assignment) {
    return new Promise<{ analysis: Analysis; handOff: HandOff }>((resolve, reject) => {
      const { silence } = this.#timeouts;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const hear = (): void => {
        clearTimeout(timer);
        timer = setTimeout(
          () => this.end(new AnalysisError('worker-unresponsive', `silent for ${silence} ms`)),
          silence,
        );
      };
      const settle = (): void => {
        clearTimeout(timer);
        this.#fail = () => {};
        this.#listen = () => {};
      };
      this.#fail = (error) => {
        settle();
        reject(error);
      };

      const byteLengthBefore = bytes.byteLength;
      const request: AnalyseRequest = { type: 'analyse', id, bytes, options };
      const before = performance.now();
      worker.postMessage(request, mode === 'transfer' ? [bytes] : []);
      const milliseconds = performance.now() - before;
      const byteLengthAfter = bytes.byteLength;
      let arrivalMilliseconds = 0;

      hear();
      this.#listen = (reply) => {
        if (reply.type === 'ready' || reply.id !== id) return;
        hear();
        if (reply.type === 'accepted') {
          arrivalMilliseconds = Math.max(0, reply.at - performance.timeOrigin - before);
        } else if (reply.type === 'stage') {
          onStage(reply.stage, reply.pass);
        } else if (reply.type === 'failed') {
          settle();
          reject(new AnalysisError(reply.code, reply.detail));
        } else {
          settle();
          const handOff = { mode, byteLengthBefore, byteLengthAfter, milliseconds, arrivalMilliseconds };
          resolve({ analysis: reply.analysis, handOff });
        }
      };
    });
  }
}

function messageOf(event: Event): string {
  return 'message' in event && typeof event.message === 'string' ? event.message : event.type;
}
