/** The depths of the last minutes as columns, the form in which a chart wants them. */

import type { DepthReading } from '../api/client';

export interface DepthColumns {
  /** Seconds since 1970, by the database's clock. */
  readonly at: number[];
  readonly pending: (number | null)[];
  readonly processing: (number | null)[];
  readonly retrying: (number | null)[];
  readonly enqueuedPerSecond: (number | null)[];
  readonly settledPerSecond: (number | null)[];
}

export const EMPTY_COLUMNS: DepthColumns = {
  at: [],
  pending: [],
  processing: [],
  retrying: [],
  enqueuedPerSecond: [],
  settledPerSecond: [],
};

/** Silence longer than this is drawn as a gap, not as a line that nobody measured. */
const GAP_SECONDS = 5;

/** The columns with one more reading, cut to the window. A reading not newer than the last changes nothing. */
export function withReading(
  columns: DepthColumns,
  reading: DepthReading,
  windowSeconds: number,
): DepthColumns {
  const at = Date.parse(reading.at) / 1000;
  const last = columns.at.at(-1);
  if (last !== undefined && at <= last) return columns;
  const gap = last !== undefined && at - last > GAP_SECONDS;
  const first = columns.at.findIndex((time) => time >= at - windowSeconds);
  const from = first === -1 ? columns.at.length : first;
  const add = <Value>(column: readonly Value[], value: Value, missing: Value): Value[] => [
    ...column.slice(from),
    ...(gap ? [missing] : []),
    value,
  ];
  return {
    at: add(columns.at, at, last === undefined ? at : last + 0.001),
    pending: add(columns.pending, reading.pending, null),
    processing: add(columns.processing, reading.processing, null),
    retrying: add(columns.retrying, reading.retrying, null),
    enqueuedPerSecond: add(columns.enqueuedPerSecond, reading.enqueuedPerSecond, null),
    settledPerSecond: add(columns.settledPerSecond, reading.settledPerSecond, null),
  };
}

export function peak(column: readonly (number | null)[]): number {
  return column.reduce<number>((highest, value) => Math.max(highest, value ?? 0), 0);
}
