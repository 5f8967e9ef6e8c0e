import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type AnalysisClient, type ClientOptions, createAnalysisClient, type ManyState } from './client';
import type { Analysis } from './protocol';
import type { WorkerLike } from './worker-seat';

/**
 * A real thread that speaks the protocol; what it does with an image is said by the image's text. Structured
 * clone, transfer, crash and termination are therefore the real ones.
 */
const SCRIPT = `
  const { parentPort, threadId } = require('node:worker_threads');
  parentPort.on('message', ({ id, bytes, options }) => {
    const text = Buffer.from(bytes).toString();
    const reply = (message) => parentPort.postMessage({ id, ...message });
    reply({ type: 'accepted', at: performance.timeOrigin + performance.now() });
    reply({ type: 'stage', stage: 'decode', pass: 1 });
    if (text === 'crash') throw new Error('boom');
    if (text === 'hang') return;
    if (text === 'spin') for (;;);
    if (text === 'damaged') return reply({ type: 'failed', code: 'damaged', detail: 'torn' });
    const answer = () => reply({ type: 'done', analysis: { text, threadId, options } });
    if (text.startsWith('slow')) setTimeout(answer, 50); else answer();
  });
  parentPort.postMessage({ type: 'ready' });
`;

const threads: Worker[] = [];
const clients: AnalysisClient[] = [];

/** The few events of a browser's Worker, on a thread of Node. */
function thread(script = SCRIPT): WorkerLike {
  const worker = new Worker(script, { eval: true });
  threads.push(worker);
  worker.on('error', () => {});
  return {
    postMessage: (message, transfer) => worker.postMessage(message, transfer as ArrayBuffer[]),
    terminate: () => worker.terminate(),
    addEventListener: (type, listener) =>
      worker.on(type, (data: unknown) => {
        listener(Object.assign(new Event(type), type === 'message' ? { data } : { message: String(data) }));
      }),
  };
}

function client(options: ClientOptions = {}, factory: () => WorkerLike = () => thread()): AnalysisClient {
  const made = createAnalysisClient(factory, { size: 1, ...options });
  clients.push(made);
  return made;
}

const bytesOf = (text: string): ArrayBuffer => new TextEncoder().encode(text).buffer;
const textOf = (analysis: Analysis): string => (analysis as unknown as { text: string }).text;
const threadOf = (analysis: Analysis): number => (analysis as unknown as { threadId: number }).threadId;
const failsWith = (code: string) => expect.objectContaining({ name: 'AnalysisError', code });

afterEach(async () => {
  for (const made of clients.splice(0)) made.dispose();
  await Promise.all(threads.splice(0).map((worker) => worker.terminate()));
});

describe('hand-off', () => {
  it('empties the sender by transfer', async () => {
    const bytes = bytesOf('photograph');
    const { thread: where, handOff, analysis } = await client().analyse(bytes);
    expect(textOf(analysis)).toBe('photograph');
    expect(where).toBe('worker');
    expect(handOff).toMatchObject({ mode: 'transfer', byteLengthBefore: 10, byteLengthAfter: 0 });
    expect(bytes.byteLength).toBe(0);
    expect(handOff?.milliseconds).toBeGreaterThanOrEqual(0);
    expect(handOff?.arrivalMilliseconds).toBeGreaterThanOrEqual(0);
  });

  it('leaves the sender whole by clone', async () => {
    const bytes = bytesOf('photograph');
    const { handOff } = await client().analyse(bytes, { handOff: 'clone' });
    expect(handOff).toMatchObject({ mode: 'clone', byteLengthBefore: 10, byteLengthAfter: 10 });
    expect(bytes.byteLength).toBe(10);
  });

  it('reads a file anew for a second run', async () => {
    const file = new Blob(['photograph']);
    const pool = client();
    const runs = [await pool.analyse(file), await pool.analyse(file)];
    expect(runs.map(({ analysis }) => textOf(analysis))).toEqual(['photograph', 'photograph']);
    expect(runs.map(({ handOff }) => handOff?.byteLengthBefore)).toEqual([10, 10]);
  });

  it('passes the options on and tells the stages', async () => {
    const onStage = vi.fn();
    const { analysis } = await client().analyse(bytesOf('x'), { swatches: 3, passes: 2, onStage });
    expect(analysis).toMatchObject({ options: { swatches: 3, passes: 2 } });
    expect(onStage.mock.calls).toEqual([
      ['reading', 1],
      ['sent', 1],
      ['decode', 1],
    ]);
  });
});

describe('the pool', () => {
  it('starts no worker before it is needed and keeps it afterwards', async () => {
    const factory = vi.fn(() => thread());
    const pool = client({ size: 3 }, factory);
    expect(factory).not.toHaveBeenCalled();
    const first = await pool.analyse(bytesOf('a'));
    const second = await pool.analyse(bytesOf('b'));
    expect(factory).toHaveBeenCalledTimes(1);
    expect(threadOf(second.analysis)).toBe(threadOf(first.analysis));
  });

  it('works on as many at once as it has workers, and answers each its own', async () => {
    const factory = vi.fn(() => thread());
    const texts = Array.from({ length: 9 }, (_, index) => `slow ${index}`);
    const states = await client({ size: 3 }, factory).analyseMany(texts.map((text) => new Blob([text])));
    expect(states.map((state) => state.state === 'done' && textOf(state.result.analysis))).toEqual(texts);
    expect(factory).toHaveBeenCalledTimes(3);
  });

  it('tells the progress of each of many; a bad one spoils no other', async () => {
    const seen: [number, ManyState['state'], number][] = [];
    const states = await client().analyseMany([bytesOf('a'), bytesOf('damaged'), new Blob([])], {
      onProgress: (index, { state }, finished) => seen.push([index, state, finished]),
    });
    expect(states.map((state) => (state.state === 'failed' ? state.error.code : state.state))).toEqual([
      'done',
      'damaged',
      'empty',
    ]);
    expect(seen.slice(0, 3)).toEqual([
      [0, 'waiting', 0],
      [1, 'waiting', 0],
      [2, 'waiting', 0],
    ]);
    expect(seen.filter(([, state]) => state === 'done' || state === 'failed').map(([, , n]) => n)).toEqual([
      1, 2, 3,
    ]);
  });
});

describe('cancel', () => {
  it('ends the worker in the middle of its work and begins the next with a new one', async () => {
    const factory = vi.fn(() => thread());
    const pool = client({}, factory);
    const controller = new AbortController();
    const run = pool.analyse(bytesOf('spin'), {
      signal: controller.signal,
      onStage: (stage) => stage === 'decode' && controller.abort('enough'),
    });
    await expect(run).rejects.toMatchObject({ code: 'cancelled', cause: 'enough' });
    await once(threads[0] as Worker, 'exit');
    expect(textOf((await pool.analyse(bytesOf('next'))).analysis)).toBe('next');
    expect(factory).toHaveBeenCalledTimes(2);
  });

  it('leaves the other workers at their work', async () => {
    const factory = vi.fn(() => thread());
    const pool = client({ size: 2 }, factory);
    const controller = new AbortController();
    const cancelled = pool.analyse(bytesOf('hang'), { signal: controller.signal });
    const other = pool.analyse(bytesOf('slow'));
    controller.abort();
    await expect(cancelled).rejects.toEqual(failsWith('cancelled'));
    expect(textOf((await other).analysis)).toBe('slow');
  });

  it('takes what still waits out of the line, unread', async () => {
    const pool = client();
    const controller = new AbortController();
    const running = pool.analyse(bytesOf('slow'));
    const bytes = bytesOf('waiting');
    const waiting = pool.analyse(bytes, { signal: controller.signal });
    controller.abort();
    await expect(waiting).rejects.toEqual(failsWith('cancelled'));
    expect(bytes.byteLength).toBe(7);
    expect(textOf((await running).analysis)).toBe('slow');
    expect(textOf((await pool.analyse(bytesOf('after'))).analysis)).toBe('after');
  });

  it('stops many at once: what is done stays done', async () => {
    const controller = new AbortController();
    const states = await client().analyseMany([bytesOf('a'), bytesOf('hang'), bytesOf('b')], {
      signal: controller.signal,
      onProgress: (index, state) =>
        index === 1 && state.state === 'running' && state.stage === 'decode' && controller.abort(),
    });
    expect(states.map((state) => (state.state === 'failed' ? state.error.code : state.state))).toEqual([
      'done',
      'cancelled',
      'cancelled',
    ]);
  });

  it('refuses at once when the signal has fired already', async () => {
    const factory = vi.fn(() => thread());
    const run = client({}, factory).analyse(bytesOf('a'), { signal: AbortSignal.abort() });
    await expect(run).rejects.toEqual(failsWith('cancelled'));
    expect(factory).not.toHaveBeenCalled();
  });

  it('ends everything on dispose', async () => {
    const pool = client();
    const runs = [pool.analyse(bytesOf('hang')), pool.analyse(bytesOf('waiting'))];
    const settled = Promise.allSettled(runs);
    pool.dispose();
    expect((await settled).map((one) => one.status === 'rejected' && one.reason.code)).toEqual([
      'cancelled',
      'cancelled',
    ]);
    await expect(pool.analyse(bytesOf('late'))).rejects.toEqual(failsWith('cancelled'));
  });
});

describe('a worker that fails', () => {
  it('is noticed when its script does not load, and the bytes are still the caller’s', async () => {
    const bytes = bytesOf('a');
    const run = client({}, () => thread('throw new Error("404")')).analyse(bytes);
    await expect(run).rejects.toEqual(failsWith('worker-unavailable'));
    expect(bytes.byteLength).toBe(1);
  });

  it('is noticed when it cannot even be made', async () => {
    const run = client({}, () => {
      throw new DOMException('policy', 'SecurityError');
    }).analyse(bytesOf('a'));
    await expect(run).rejects.toEqual(failsWith('worker-unavailable'));
  });

  it('is noticed when its script never speaks', async () => {
    const run = client({ startTimeoutMilliseconds: 50 }, () => thread('setInterval(() => {}, 1000)')).analyse(
      bytesOf('a'),
    );
    await expect(run).rejects.toEqual(failsWith('worker-unavailable'));
  });

  it('is noticed when it falls silent, and is replaced', async () => {
    const pool = client({ silenceTimeoutMilliseconds: 400 });
    await expect(pool.analyse(bytesOf('spin'))).rejects.toEqual(failsWith('worker-unresponsive'));
    expect(textOf((await pool.analyse(bytesOf('next'))).analysis)).toBe('next');
  });

  it('is noticed when it crashes, and is replaced', async () => {
    const pool = client();
    await expect(pool.analyse(bytesOf('crash'))).rejects.toEqual(failsWith('worker-crashed'));
    expect(textOf((await pool.analyse(bytesOf('next'))).analysis)).toBe('next');
  });

  it('passes on why an image gave nothing, and is kept', async () => {
    const factory = vi.fn(() => thread());
    const pool = client({}, factory);
    await expect(pool.analyse(bytesOf('damaged'))).rejects.toEqual(failsWith('damaged'));
    await pool.analyse(bytesOf('next'));
    expect(factory).toHaveBeenCalledTimes(1);
  });
});

describe('without a worker', () => {
  it('has SVG done on this thread, its bytes untouched', async () => {
    const factory = vi.fn(() => thread());
    const analyseHere = vi.fn(async () => ({ format: 'svg' }) as Analysis);
    const bytes = bytesOf('<svg xmlns="http://www.w3.org/2000/svg"/>');
    const result = await client({ analyseHere }, factory).analyse(bytes);
    expect(result).toMatchObject({ thread: 'main', handOff: null, analysis: { format: 'svg' } });
    expect(bytes.byteLength).toBeGreaterThan(0);
    expect(factory).not.toHaveBeenCalled();
  });

  it('refuses zero bytes before anything starts', async () => {
    const factory = vi.fn(() => thread());
    await expect(client({}, factory).analyse(new Blob([]))).rejects.toEqual(failsWith('empty'));
    expect(factory).not.toHaveBeenCalled();
  });

  it('says so when the file has gone since it was picked', async () => {
    const gone = new Blob(['x']);
    gone.arrayBuffer = () => Promise.reject(new DOMException('gone', 'NotReadableError'));
    await expect(client().analyse(gone)).rejects.toEqual(failsWith('unreadable'));
  });
});
