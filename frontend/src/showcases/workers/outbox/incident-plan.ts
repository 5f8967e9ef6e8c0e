/** The steps of an incident in order: those that happened, the one that is open, those that will come. */

import type { Incident } from '../../../lib/api/client';

export type IncidentKind = Incident['kind'];
export type IncidentAction = NonNullable<Incident['next']>;

export const STEPS = [
  'enqueued',
  'worker_started',
  'claimed',
  'killed',
  'frozen',
  'lapsed',
  'reaped',
  'redelivered',
  'thawed',
  'discarded',
] as const;
export type Step = (typeof STEPS)[number];

const PLANS: Readonly<Record<IncidentKind, readonly Step[]>> = {
  kill: ['enqueued', 'worker_started', 'claimed', 'killed', 'lapsed', 'reaped', 'redelivered'],
  freeze: [
    'enqueued',
    'worker_started',
    'claimed',
    'frozen',
    'lapsed',
    'reaped',
    'redelivered',
    'thawed',
    'discarded',
  ],
};

export interface PlannedStep {
  readonly step: Step;
  readonly state: 'done' | 'next' | 'ahead';
  readonly at: string | null;
  /** The fence, as the row had it then. */
  readonly attempts: number | null;
}

/** Without an incident of this kind everything is still ahead. */
export function plan(kind: IncidentKind, incident: Pick<Incident, 'log' | 'state'> | null): PlannedStep[] {
  let open = incident !== null && incident.state !== 'failed';
  return PLANS[kind].map((step) => {
    const entry = incident?.log.find((logged) => logged.step === step);
    if (entry !== undefined) return { step, state: 'done', at: entry.at, attempts: entry.attempts ?? null };
    const state = open ? 'next' : 'ahead';
    open = false;
    return { step, state, at: null, attempts: null };
  });
}

export function isOver(incident: Pick<Incident, 'state'>): boolean {
  return incident.state === 'delivered' || incident.state === 'discarded' || incident.state === 'failed';
}
