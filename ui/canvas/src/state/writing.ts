/** The text of a frame or a note while it is typed: the document gets each letter, and all of them are one step. */

import { setText } from '../document/annotations';
import { own } from '../document/own';
import type { App } from './app';

export function write(app: App, id: string, text: string): void {
  const { doc } = app.state;
  const label = own(doc.annotations, id)?.kind === 'frame' ? 'Rename frame' : 'Write note';
  app.edit(label, setText(doc, id, text), groupOf(id));
}

/** One opening of the field on the canvas, from the first letter to the last. */
export class Writing {
  /** What was typed last; null before the first letter. */
  private written: string | null = null;

  constructor(
    private readonly app: App,
    private readonly id: string,
  ) {}

  write(text: string): void {
    this.written = text;
    write(this.app, this.id, text);
  }

  /** It is typed, or given up. What others wrote since the last letter stays as they wrote it. */
  end(kept: boolean): void {
    const { written } = this;
    const isOurs = written !== null && own(this.app.state.doc.annotations, this.id)?.text === written;
    if (isOurs && kept) this.write(written.trim());
    else if (isOurs) this.app.giveUp(groupOf(this.id));
    this.close();
  }

  /** The field is gone, for whatever reason: the next letter begins a step of its own. */
  close(): void {
    this.written = null;
    this.app.seal(groupOf(this.id));
  }
}

function groupOf(id: string): string {
  return `@${id} text`;
}
