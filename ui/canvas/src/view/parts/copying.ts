/** Copying a text at the press of a button. */

import type { App } from '../../state/app';

/** Copies `text` and says `done`, or where the browser refuses what to do `instead`. */
export async function copy(app: App, text: string, done: string, instead: string): Promise<void> {
  try {
    // Over plain http there is no clipboard at all.
    await navigator.clipboard.writeText(text);
  } catch {
    app.notify('warning', 'The browser does not allow copying here.', instead);
    return;
  }
  app.notify('success', done);
}
