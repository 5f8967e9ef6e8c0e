/** The present address as state, and the ways to change it. */

import { overwriteGetLocale } from '../lib/paraglide/runtime.js';
import { placeOf } from './routes';

class Location {
  #pathname = $state(window.location.pathname);
  readonly place = $derived(placeOf(this.#pathname));
  /** Counts the changes of page made inside it: focus moves for them, not at the first load or for a language. */
  visits = $state(0);

  get pathname(): string {
    return this.#pathname;
  }

  go(pathname: string, how: 'push' | 'replace' = 'push'): void {
    const target = placeOf(pathname).redirect ?? pathname;
    const another = placeOf(target).page !== this.place.page;
    if (how === 'push') history.pushState(null, '', target);
    else history.replaceState(null, '', target);
    this.#pathname = target;
    if (how === 'push' && another) this.visits += 1;
  }

  /** Follow plain clicks on links of ours and the browser's back and forward. Returns the way to stop. */
  listen(): () => void {
    const redirect = this.place.redirect;
    if (redirect !== null) this.go(redirect, 'replace');
    const onClick = (event: MouseEvent): void => {
      const pathname = ownLink(event);
      if (pathname === null) return;
      event.preventDefault();
      const stays = placeOf(pathname).page === this.place.page;
      this.go(pathname);
      // Another language of the same page keeps the place in it.
      if (!stays) window.scrollTo(0, 0);
    };
    const onPop = (): void => {
      this.#pathname = window.location.pathname;
    };
    document.addEventListener('click', onClick);
    window.addEventListener('popstate', onPop);
    return () => {
      document.removeEventListener('click', onClick);
      window.removeEventListener('popstate', onPop);
    };
  }
}

function ownLink(event: MouseEvent): string | null {
  if (event.defaultPrevented || event.button !== 0) return null;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return null;
  const anchor = event.target instanceof Element ? event.target.closest('a') : null;
  if (anchor === null || anchor.target !== '' || anchor.hasAttribute('download')) return null;
  const url = new URL(anchor.href, window.location.href);
  if (url.origin !== window.location.origin || url.hash !== '' || url.pathname.startsWith('/api/'))
    return null;
  return url.pathname;
}

export const location = new Location();

// Messages read the language from here, which makes every text follow the address without a reload.
overwriteGetLocale(() => location.place.locale);
