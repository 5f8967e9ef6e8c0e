/** Says things to screen readers, politely: the one live region of the page reads from here. */

class Announcer {
  message = $state('');

  say(message: string): void {
    // The same sentence twice is news twice, and a region only speaks when its text changes.
    this.message = message === this.message ? `${message}\u00a0` : message;
  }
}

export const announcer = new Announcer();
