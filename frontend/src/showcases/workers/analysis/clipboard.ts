/** Copying text and saving files: the two ways a palette leaves the page. */

import type { ExportedFile } from '../../../lib/workers/export';

/** False where the browser or the reader refuses. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function saveFile(file: ExportedFile): void {
  const url = URL.createObjectURL(new Blob([file.content], { type: file.mimeType }));
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = file.fileName;
  anchor.click();
  // The download has taken hold of the blob by the next task.
  setTimeout(() => URL.revokeObjectURL(url));
}
