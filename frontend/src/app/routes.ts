/** Which page an address means, and which address a page has: pure, so that it can be tested without a browser. */

export const LOCALES = ['en', 'de'] as const;
export type Locale = (typeof LOCALES)[number];

const PATHS = { workers: '/showcases/workers', inbox: '/inbox' } as const;

export type PageName = keyof typeof PATHS;

export interface Place {
  readonly locale: Locale;
  readonly page: PageName | 'not-found';
  /** Set where the address is an abbreviation of another. */
  readonly redirect: string | null;
}

export function hrefOf(page: PageName, locale: Locale): string {
  return prefixOf(locale) + PATHS[page];
}

export function placeOf(pathname: string): Place {
  const german = pathname === '/de' || pathname.startsWith('/de/');
  const locale: Locale = german ? 'de' : 'en';
  const rest = (german ? pathname.slice('/de'.length) : pathname) || '/';
  if (rest === '/') return { locale, page: 'workers', redirect: hrefOf('workers', locale) };
  const bare = rest.length > 1 && rest.endsWith('/') ? rest.slice(0, -1) : rest;
  for (const page of Object.keys(PATHS) as PageName[]) {
    if (PATHS[page] === bare) {
      return { locale, page, redirect: bare === rest ? null : hrefOf(page, locale) };
    }
  }
  return { locale, page: 'not-found', redirect: null };
}

/** The same page in another language; an unknown address keeps its path, so that it stays the same 404. */
export function translated(pathname: string, locale: Locale): string {
  const place = placeOf(pathname);
  if (place.page !== 'not-found') return hrefOf(place.page, locale);
  const rest = place.locale === 'de' ? pathname.slice('/de'.length) : pathname;
  return prefixOf(locale) + rest;
}

function prefixOf(locale: Locale): string {
  return locale === 'en' ? '' : `/${locale}`;
}
