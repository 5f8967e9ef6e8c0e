/** One image and what the two threads made of it. */

import { type AnalysisClient, createAnalysisClient } from '../../../lib/workers/client';
import { analyseImage } from '../../../lib/workers/image-analysis';
import ImageAnalysisWorker from '../../../lib/workers/image-analysis.worker?worker';
import {
  type Analysis,
  AnalysisError,
  type HandOff,
  type HandOffMode,
  toAnalysisError,
} from '../../../lib/workers/protocol';
import { canAnalyse, missingCapabilities } from '../../../lib/workers/support';
import type { FrameMeter, Recording } from './frame-meter';
import { type FrameReport, report } from './frames';

export type Thread = 'main' | 'worker';

export interface Run {
  readonly analysis: Analysis;
  readonly frames: FrameReport;
  readonly recording: Recording;
  /** Where the work was done: an SVG sent to the worker comes back to the main thread. */
  readonly doneOn: Thread;
}

export interface ChosenImage {
  readonly file: File;
  readonly url: string;
}

/** On both paths alike: one pass is over before an eye could see anything stall. */
export const PASS_CHOICES = ['1', '100', '300'] as const;
export type PassChoice = (typeof PASS_CHOICES)[number];

export class AnalysisSession {
  readonly missing = missingCapabilities();
  readonly possible = canAnalyse(this.missing);
  readonly workersPossible = this.possible && !this.missing.includes('worker');

  image = $state.raw<ChosenImage | null>(null);
  passes = $state<PassChoice>('100');
  handOffMode = $state<HandOffMode>('transfer');
  running = $state<Thread | null>(null);
  runs = $state.raw<Readonly<Record<Thread, Run | null>>>({ main: null, worker: null });
  latest = $state<Thread | null>(null);
  error = $state.raw<AnalysisError | null>(null);
  /** The last hand-off of each kind, kept side by side. */
  handOffs = $state.raw<Readonly<Record<HandOffMode, HandOff | null>>>({ transfer: null, clone: null });
  /** How often the file was read: a transferred buffer is gone, so each run begins with reading. */
  reads = $state(0);

  #client: AnalysisClient | null = null;
  #cancel: AbortController | null = null;

  get client(): AnalysisClient {
    this.#client ??= createAnalysisClient(() => new ImageAnalysisWorker());
    return this.#client;
  }

  choose(file: File): void {
    if (this.running !== null) this.cancel();
    if (this.image !== null) URL.revokeObjectURL(this.image.url);
    this.image = { file, url: URL.createObjectURL(file) };
    this.runs = { main: null, worker: null };
    this.latest = null;
    this.handOffs = { transfer: null, clone: null };
    this.reads = 0;
    this.error = file.size === 0 ? new AnalysisError('empty') : null;
  }

  /** True when a palette came of it. */
  async run(thread: Thread, meter: FrameMeter): Promise<boolean> {
    const image = this.image;
    if (image === null || this.running !== null) return false;
    this.running = thread;
    this.error = null;
    const { outcome, recording } = await meter.record(() => this.#analyse(image.file, thread));
    this.running = null;
    // Another image was chosen meanwhile: this one's result has no place on the page any more.
    if (this.image !== image) return false;
    if (outcome.status === 'rejected') {
      this.error = toAnalysisError(outcome.reason);
      return false;
    }
    const { analysis, doneOn, handOff } = outcome.value;
    const run: Run = { analysis, doneOn, recording, frames: report(recording.times, recording.period) };
    this.runs = { ...this.runs, [thread]: run };
    this.latest = thread;
    if (handOff !== null) this.handOffs = { ...this.handOffs, [handOff.mode]: handOff };
    return true;
  }

  cancel(): void {
    this.#cancel?.abort();
  }

  dispose(): void {
    this.#client?.dispose();
    if (this.image !== null) URL.revokeObjectURL(this.image.url);
  }

  async #analyse(
    file: File,
    thread: Thread,
  ): Promise<{ analysis: Analysis; doneOn: Thread; handOff: HandOff | null }> {
    const passes = Number(this.passes);
    if (thread === 'main') {
      const bytes = await this.#read(file);
      return { analysis: await analyseImage(bytes, { passes }), doneOn: 'main', handOff: null };
    }
    const bytes = await this.#read(file);
    this.#cancel = new AbortController();
    const { signal } = this.#cancel;
    const answer = await this.client.analyse(bytes, { passes, handOff: this.handOffMode, signal });
    return { analysis: answer.analysis, doneOn: answer.thread, handOff: answer.handOff };
  }

  async #read(file: File): Promise<ArrayBuffer> {
    try {
      const bytes = await file.arrayBuffer();
      this.reads += 1;
      return bytes;
    } catch (cause) {
      throw new AnalysisError('unreadable', String(cause), { cause });
    }
  }
}

/** Whether two threads came to the same palette and luminance, to the last bit. */
export function sameResult(a: Analysis, b: Analysis): boolean {
  return a.luminance === b.luminance && JSON.stringify(a.swatches) === JSON.stringify(b.swatches);
}
