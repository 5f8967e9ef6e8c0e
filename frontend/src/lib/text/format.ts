/** Numbers, sizes and times in the reader's notation. */

const cache = new Map<string, Intl.NumberFormat>();

function numberFormat(locale: string, options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const key = locale + JSON.stringify(options);
  let format = cache.get(key);
  if (format === undefined) {
    format = new Intl.NumberFormat(locale, options);
    cache.set(key, format);
  }
  return format;
}

export function formatNumber(value: number, locale: string, digits = 0): string {
  return numberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

export function formatPercent(share: number, locale: string): string {
  return numberFormat(locale, {
    style: 'percent',
    minimumFractionDigits: 1,
    maximumFractionDigits: 1,
  }).format(share);
}

/** Milliseconds: three digits that mean something, whatever the magnitude. */
export function formatMilliseconds(milliseconds: number, locale: string): string {
  const digits = milliseconds < 1 ? 2 : milliseconds < 10 ? 1 : 0;
  return numberFormat(locale, {
    style: 'unit',
    unit: 'millisecond',
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(milliseconds);
}

export function formatBytes(bytes: number, locale: string): string {
  return numberFormat(locale, { style: 'unit', unit: 'byte', unitDisplay: 'long' }).format(bytes);
}

/** Seconds as "8 s", "2 min 5 s", "1 h 4 min": at most two units, the same in every language we have. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}\u202fs`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return joined(minutes, 'min', whole % 60, 's');
  return joined(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  const first = `${large}\u202f${largeUnit}`;
  return small === 0 ? first : `${first} ${small}\u202f${smallUnit}`;
}

export function formatTime(iso: string, locale: string): string {
  return new Intl.DateTimeFormat(locale, { timeStyle: 'medium' }).format(new Date(iso));
}

/** The time alone for today, else with the date. */
export function formatMoment(iso: string, locale: string, now = new Date()): string {
  const then = new Date(iso);
  if (then.toDateString() === now.toDateString()) return formatTime(iso, locale);
  return new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' }).format(then);
}

/** An id as people compare it: UUIDv7 begin alike, so the end tells them apart. */
export function shortId(id: string): string {
  return id.slice(-8);
}
