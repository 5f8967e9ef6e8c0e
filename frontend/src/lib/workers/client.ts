/** A small pool of image-analysis workers: hands out images in order, cancels, and fails loudly. */

import { analyseImage, readBytes, requireSaneLength } from './image-analysis';
import {
  AnalysisError,
  type AnalysisOptions,
  type AnalysisStage,
  type ClientAnalysis,
  type HandOffMode,
  toAnalysisError,
} from './protocol';
import { isSvg } from './svg';
import { type WorkerLike, WorkerSeat } from './worker-seat';

export type { WorkerLike };

export interface ClientOptions {
  /** Default: min(4, hardwareConcurrency − 1), at least 1. */
  readonly size?: number;
  /** How long a fresh worker may take to say that its script has loaded; default 10 s. */
  readonly startTimeoutMilliseconds?: number;
  /** How long a worker may be silent while it works; default 60 s. */
  readonly silenceTimeoutMilliseconds?: number;
  /** What does the work for images no worker can decode (SVG); default analyseImage, on this thread. */
  readonly analyseHere?: typeof analyseImage;
}

export type ClientStage = 'reading' | 'sent' | AnalysisStage;

export interface AnalyseOptions extends AnalysisOptions {
  /** Default 'transfer'. */
  readonly handOff?: HandOffMode;
  readonly signal?: AbortSignal | undefined;
  /** First called when the image's turn comes. */
  readonly onStage?: (stage: ClientStage, pass: number) => void;
}

export type ManyState =
  | { readonly state: 'waiting' }
  | { readonly state: 'running'; readonly stage: ClientStage; readonly pass: number }
  | { readonly state: 'done'; readonly result: ClientAnalysis }
  | { readonly state: 'failed'; readonly error: AnalysisError };

export type SettledState = Extract<ManyState, { state: 'done' | 'failed' }>;

export interface ManyOptions extends Omit<AnalyseOptions, 'onStage'> {
  /** One call for every change of one image; `finished` counts done and failed. */
  readonly onProgress?: (index: number, state: ManyState, finished: number, total: number) => void;
}

export interface AnalysisClient {
  readonly size: number;
  /**
   * Rejects with AnalysisError only. An ArrayBuffer is given away with 'transfer' (byteLength 0
   * afterwards); a Blob is read when its turn comes and stays whole.
   */
  analyse(image: ArrayBuffer | Blob, options?: AnalyseOptions): Promise<ClientAnalysis>;
  /** Never rejects: each image ends 'done' or 'failed' (cancelled ones with code 'cancelled'). */
  analyseMany(images: readonly (ArrayBuffer | Blob)[], options?: ManyOptions): Promise<SettledState[]>;
  /** Ends every worker; what is under way or comes later rejects with 'cancelled'. */
  dispose(): void;
}

/**
 * `factory` is called for each worker, as late as possible:
 * `createAnalysisClient(() => new ImageAnalysisWorker())` with
 * `import ImageAnalysisWorker from './image-analysis.worker?worker'`.
 */
export function createAnalysisClient(factory: () => WorkerLike, options: ClientOptions = {}): AnalysisClient {
  return new Pool(factory, options);
}

class Pool implements AnalysisClient {
  readonly #seats: readonly WorkerSeat[];
  readonly #analyseHere: typeof analyseImage;
  readonly #disposal = new AbortController();
  /** Those who wait for a seat, first come, first served. */
  readonly #queue: ((seat: WorkerSeat) => void)[] = [];
  #lastId = 0;

  constructor(factory: () => WorkerLike, options: ClientOptions) {
    const timeouts = {
      start: options.startTimeoutMilliseconds ?? 10_000,
      silence: options.silenceTimeoutMilliseconds ?? 60_000,
    };
    const size = Math.max(1, options.size ?? defaultSize());
    this.#seats = Array.from({ length: size }, () => new WorkerSeat(factory, timeouts));
    this.#analyseHere = options.analyseHere ?? analyseImage;
  }

  get size(): number {
    return this.#seats.length;
  }

  async analyse(image: ArrayBuffer | Blob, options: AnalyseOptions = {}): Promise<ClientAnalysis> {
    const { signal, onStage = () => {}, handOff: mode = 'transfer', ...analysisOptions } = options;
    const cancel = signal ? AbortSignal.any([signal, this.#disposal.signal]) : this.#disposal.signal;
    try {
      requireSaneLength(image instanceof Blob ? image.size : image.byteLength);
      const seat = await this.#takeSeat(cancel);
      try {
        onStage('reading', 1);
        const bytes = await readBytes(image);
        requireNotCancelled(cancel);
        if (isSvg(new Uint8Array(bytes))) {
          const analysis = await orCancelled(this.#analyseHere(bytes, analysisOptions, onStage), cancel);
          return { analysis, thread: 'main', handOff: null };
        }
        onStage('sent', 1);
        const id = ++this.#lastId;
        const work = seat.run({ id, bytes, options: analysisOptions, mode, onStage });
        // A worker in the middle of a decode hears nothing: the only way to stop it is to end it.
        const end = (): void => seat.end(cancelled(cancel));
        cancel.addEventListener('abort', end, { once: true });
        try {
          return { ...(await work), thread: 'worker' };
        } finally {
          cancel.removeEventListener('abort', end);
        }
      } finally {
        this.#giveSeat(seat);
      }
    } catch (thrown) {
      throw toAnalysisError(thrown);
    }
  }

  async analyseMany(
    images: readonly (ArrayBuffer | Blob)[],
    options: ManyOptions = {},
  ): Promise<SettledState[]> {
    const { onProgress = () => {}, ...each } = options;
    let finished = 0;
    const report = <S extends ManyState>(index: number, state: S): S => {
      onProgress(index, state, finished, images.length);
      return state;
    };
    const settle = (index: number, state: SettledState): SettledState => {
      finished++;
      return report(index, state);
    };
    return await Promise.all(
      images.map((image, index) => {
        report(index, { state: 'waiting' });
        return this.analyse(image, {
          ...each,
          onStage: (stage, pass) => void report(index, { state: 'running', stage, pass }),
        }).then(
          (result) => settle(index, { state: 'done', result }),
          (thrown) => settle(index, { state: 'failed', error: toAnalysisError(thrown) }),
        );
      }),
    );
  }

  dispose(): void {
    this.#disposal.abort();
    for (const seat of this.#seats) seat.end(new AnalysisError('cancelled', 'disposed of'));
  }

  #takeSeat(cancel: AbortSignal): Promise<WorkerSeat> {
    requireNotCancelled(cancel);
    const free = this.#seats.find((seat) => !seat.busy);
    if (free !== undefined) {
      free.busy = true;
      return Promise.resolve(free);
    }
    return new Promise((resolve, reject) => {
      const take = (seat: WorkerSeat): void => {
        cancel.removeEventListener('abort', leave);
        resolve(seat);
      };
      const leave = (): void => {
        this.#queue.splice(this.#queue.indexOf(take), 1);
        reject(cancelled(cancel));
      };
      cancel.addEventListener('abort', leave, { once: true });
      this.#queue.push(take);
    });
  }

  /** Straight to the next in line, so that nobody who comes later slips in between. */
  #giveSeat(seat: WorkerSeat): void {
    const next = this.#queue.shift();
    if (next === undefined) seat.busy = false;
    else next(seat);
  }
}

function defaultSize(): number {
  return Math.min(4, (globalThis.navigator?.hardwareConcurrency ?? 2) - 1);
}

function cancelled(signal: AbortSignal): AnalysisError {
  return new AnalysisError('cancelled', '', { cause: signal.reason });
}

function requireNotCancelled(signal: AbortSignal): void {
  if (signal.aborted) throw cancelled(signal);
}

/** For work that cannot be stopped: the answer is dropped. */
function orCancelled<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(cancelled(signal));
    signal.addEventListener('abort', leave, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave));
  });
}
