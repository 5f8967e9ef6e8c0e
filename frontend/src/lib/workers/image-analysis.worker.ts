/** The worker's shell: messages in, messages out. */
import { analyseImage } from './image-analysis';
import { type AnalyseRequest, toAnalysisError, type WorkerReply } from './protocol';

const reply = (message: WorkerReply): void => self.postMessage(message);

self.addEventListener('message', async ({ data: { id, bytes, options } }: MessageEvent<AnalyseRequest>) => {
  reply({ type: 'accepted', id, at: performance.timeOrigin + performance.now() });
  try {
    const analysis = await analyseImage(bytes, options, (stage, pass) =>
      reply({ type: 'stage', id, stage, pass }),
    );
    reply({ type: 'done', id, analysis });
  } catch (thrown) {
    const { code, message } = toAnalysisError(thrown);
    reply({ type: 'failed', id, code, detail: message });
  }
});
reply({ type: 'ready' });
