import { describe, expect, it } from 'vitest';
import { hrefOf, placeOf, translated } from './routes';

describe('placeOf', () => {
  it.each([
    ['/showcases/workers', 'en', 'workers'],
    ['/de/showcases/workers', 'de', 'workers'],
    ['/inbox', 'en', 'inbox'],
    ['/de/inbox', 'de', 'inbox'],
  ] as const)('finds %s', (path, locale, page) => {
    expect(placeOf(path)).toEqual({ locale, page, redirect: null });
  });

  it.each([
    ['/', '/showcases/workers'],
    ['/de', '/de/showcases/workers'],
    ['/de/', '/de/showcases/workers'],
    ['/inbox/', '/inbox'],
  ])('sends %s on to %s', (path, target) => {
    expect(placeOf(path).redirect).toBe(target);
  });

  it.each(['/nowhere', '/de/nowhere', '/showcases', '/inboxes', '/desk', '//'])(
    'does not know %s',
    (path) => {
      expect(placeOf(path)).toMatchObject({ page: 'not-found', redirect: null });
    },
  );

  it('takes /desk for English: the prefix is a whole segment', () => {
    expect(placeOf('/desk').locale).toBe('en');
  });
});

describe('translated', () => {
  it('keeps the page', () => {
    expect(translated('/inbox', 'de')).toBe('/de/inbox');
    expect(translated('/de/showcases/workers', 'en')).toBe('/showcases/workers');
  });

  it('keeps an unknown address unknown', () => {
    expect(translated('/nowhere', 'de')).toBe('/de/nowhere');
    expect(translated('/de/nowhere', 'en')).toBe('/nowhere');
  });
});

it('builds the addresses that placeOf reads', () => {
  expect(placeOf(hrefOf('inbox', 'de'))).toMatchObject({ page: 'inbox', locale: 'de' });
});
