/** What stands in <head> for a page: title, description, and where its translations are. */

import { m } from '../lib/paraglide/messages.js';
import { LOCALES, type Place, translated } from './routes';

const TITLES: Readonly<Record<Place['page'], () => string>> = {
  workers: m.workers_page_title,
  inbox: m.inbox_page_title,
  'not-found': m.not_found_page_title,
};

const DESCRIPTIONS: Readonly<Record<Place['page'], () => string>> = {
  workers: m.workers_page_description,
  inbox: m.inbox_page_description,
  'not-found': m.not_found_page_description,
};

export interface Head {
  readonly title: string;
  readonly description: string;
  /** Empty for a page that is not there. */
  readonly alternates: readonly { readonly locale: string; readonly href: string }[];
}

export function headOf(place: Place, pathname: string): Head {
  const exists = place.page !== 'not-found';
  const alternates = exists
    ? LOCALES.map((locale) => ({ locale, href: absolute(translated(pathname, locale)) }))
    : [];
  return {
    title: TITLES[place.page](),
    description: DESCRIPTIONS[place.page](),
    alternates: exists
      ? [...alternates, { locale: 'x-default', href: absolute(translated(pathname, 'en')) }]
      : [],
  };
}

function absolute(path: string): string {
  return new URL(path, window.location.origin).href;
}
