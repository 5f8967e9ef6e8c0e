import { describe, expect, it } from 'vitest';
import type { Incident } from '../../../lib/api/client';
import { isOver, plan } from './incident-plan';

function incident(kind: Incident['kind'], state: Incident['state'], steps: string[]): Incident {
  return {
    id: 'i',
    kind,
    state,
    next: null,
    deliveryId: 'd',
    workerPid: 1,
    attempts: 1,
    log: steps.map((step, index) => ({ step, at: `t${index}`, attempts: index > 1 ? 1 : null })),
  };
}

describe('plan', () => {
  it('shows what happened, what is next and what will come', () => {
    const steps = plan('kill', incident('kill', 'sending', ['enqueued', 'worker_started', 'claimed']));
    expect(steps.map(({ step, state }) => `${step} ${state}`)).toEqual([
      'enqueued done',
      'worker_started done',
      'claimed done',
      'killed next',
      'lapsed ahead',
      'reaped ahead',
      'redelivered ahead',
    ]);
    expect(steps[2]).toMatchObject({ at: 't2', attempts: 1 });
  });

  it('leaves nothing open once all has happened', () => {
    const all = plan('kill', incident('kill', 'delivered', [])).map(({ step }) => step);
    expect(plan('kill', incident('kill', 'delivered', all)).every(({ state }) => state === 'done')).toBe(
      true,
    );
  });

  it('has everything ahead before it begins', () => {
    const steps = plan('freeze', null);
    expect(steps).toHaveLength(9);
    expect(steps.every(({ state, at }) => state === 'ahead' && at === null)).toBe(true);
  });

  it('waits for nothing after a failure', () => {
    const steps = plan('freeze', incident('freeze', 'failed', ['enqueued']));
    expect(steps.some(({ state }) => state === 'next')).toBe(false);
  });

  it('ends a frozen worker’s story with its late report discarded', () => {
    expect(plan('freeze', incident('freeze', 'starting', [])).at(-1)?.step).toBe('discarded');
  });
});

it('knows the ends', () => {
  expect(isOver({ state: 'delivered' })).toBe(true);
  expect(isOver({ state: 'redelivered' })).toBe(false);
});
