/** The chosen theme: on <html data-theme>, put there by the server from the cookie, changed here. */

export type Theme = 'light' | 'dark';

const ONE_YEAR_SECONDS = 365 * 24 * 60 * 60;

/** What is shown: the choice, else what the system prefers. */
export function shownTheme(chosen: string | undefined, systemIsDark: boolean): Theme {
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return systemIsDark ? 'dark' : 'light';
}

export function themeCookie(theme: Theme): string {
  return `theme=${theme}; path=/; max-age=${ONE_YEAR_SECONDS}; samesite=lax`;
}

export function currentTheme(): Theme {
  return shownTheme(
    document.documentElement.dataset.theme,
    matchMedia('(prefers-color-scheme: dark)').matches,
  );
}

export function chooseTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme;
  // The Cookie Store API is missing in Firefox and Safari.
  // biome-ignore lint/suspicious/noDocumentCookie: see above.
  document.cookie = themeCookie(theme);
}

/** Calls back whenever the shown theme may have changed, by choice or by the system. Returns the way to stop. */
export function onThemeChange(callback: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const observer = new MutationObserver(callback);
  observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  system.addEventListener('change', callback);
  return () => {
    observer.disconnect();
    system.removeEventListener('change', callback);
  };
}
