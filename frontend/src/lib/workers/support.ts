/** What this browser lacks for the analysis, as codes the page has words for. */

export type Capability = 'worker' | 'offscreen-canvas' | 'create-image-bitmap';

interface Scope {
  readonly Worker?: unknown;
  readonly OffscreenCanvas?: unknown;
  readonly createImageBitmap?: unknown;
}

/** Empty: everything is there. */
export function missingCapabilities(scope: Scope = globalThis as Scope): Capability[] {
  const missing: Capability[] = [];
  if (typeof scope.Worker !== 'function') missing.push('worker');
  if (typeof scope.OffscreenCanvas !== 'function') missing.push('offscreen-canvas');
  if (typeof scope.createImageBitmap !== 'function') missing.push('create-image-bitmap');
  return missing;
}

/** The main thread can still do it without workers; without the other two nobody can. */
export function canAnalyse(missing: readonly Capability[]): boolean {
  return !missing.some((capability) => capability !== 'worker');
}
