import { expect, it } from 'vitest';
import { shownTheme, themeCookie } from './theme';

it('prefers the choice to the system', () => {
  expect(shownTheme('light', true)).toBe('light');
  expect(shownTheme('dark', false)).toBe('dark');
});

it.each(['', undefined, 'sepia'])('follows the system without a valid choice (%s)', (chosen) => {
  expect(shownTheme(chosen, true)).toBe('dark');
  expect(shownTheme(chosen, false)).toBe('light');
});

it('writes a cookie for the whole site that the server reads', () => {
  expect(themeCookie('dark')).toBe('theme=dark; path=/; max-age=31536000; samesite=lax');
});
