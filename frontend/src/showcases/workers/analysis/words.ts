/** The page's words for what can go wrong with an image. */

import { m } from '../../../lib/paraglide/messages.js';
import { type AnalysisErrorCode, LIMITS } from '../../../lib/workers/protocol';
import type { Capability } from '../../../lib/workers/support';

const ERRORS: Readonly<Record<AnalysisErrorCode, () => string>> = {
  empty: m.image_error_empty,
  unreadable: m.image_error_unreadable,
  'not-an-image': m.image_error_not_an_image,
  damaged: m.image_error_damaged,
  'too-large': () =>
    m.image_error_too_large({ megapixels: LIMITS.pixels / 1e6, mebibytes: LIMITS.bytes / 2 ** 20 }),
  unsupported: m.image_error_unsupported,
  'unsupported-in-worker': m.image_error_unsupported,
  'missing-capability': m.image_error_missing_capability,
  cancelled: m.image_error_cancelled,
  'worker-unavailable': m.image_error_worker_unavailable,
  'worker-unresponsive': m.image_error_worker_unresponsive,
  'worker-crashed': m.image_error_worker_crashed,
  internal: m.image_error_internal,
};

export function errorWords(code: AnalysisErrorCode): string {
  return ERRORS[code]();
}

/** Names of interfaces are the same in every language. */
export const CAPABILITY_NAMES: Readonly<Record<Capability, string>> = {
  worker: 'Worker',
  'offscreen-canvas': 'OffscreenCanvas',
  'create-image-bitmap': 'createImageBitmap',
};
