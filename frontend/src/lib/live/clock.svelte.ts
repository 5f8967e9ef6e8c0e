/** A clock that ticks once a second, and only while something on the page reads it. */

import { createSubscriber } from 'svelte/reactivity';

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, 1000);
  return () => clearInterval(timer);
});

/** performance.now(), read again every second. */
export function tickingNow(): number {
  subscribe();
  return performance.now();
}
