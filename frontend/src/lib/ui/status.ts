/** The states a delivery can be in, each with its colour, its icon and its word: never colour alone. */

import { m } from '../paraglide/messages.js';
import type { IconName } from './Icon.svelte';

export type Status = 'pending' | 'retrying' | 'processing' | 'sent' | 'failed' | 'dead';

export const STATUSES: readonly Status[] = ['pending', 'retrying', 'processing', 'sent', 'failed', 'dead'];

export const STATUS_ICONS: Readonly<Record<Status, IconName>> = {
  pending: 'clock',
  retrying: 'retry',
  processing: 'gear',
  sent: 'check',
  failed: 'cross',
  dead: 'skull',
};

const WORDS: Readonly<Record<Status, () => string>> = {
  pending: m.status_pending,
  retrying: m.status_retrying,
  processing: m.status_processing,
  sent: m.status_sent,
  failed: m.status_failed,
  dead: m.status_dead,
};

export function statusWord(status: Status): string {
  return WORDS[status]();
}
