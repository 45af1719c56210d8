/**
 * The browser's end of the link to Python. Both directions are numbered and acknowledged, so that
 * every command and notice counts exactly once although reruns coalesce values, connections drop
 * and servers restart.
 */

import type { Inbox, MakeEdit, Outbox, Posted, Sent } from '../protocol';

export type Command = Sent['command'];
export type Notice = Posted['notice'];

/** Commands that must not wait in line until a lost server is back: a person would have pressed again by then. */
const ONE_SHOT: ReadonlySet<Command['type']> = new Set([
  'hello',
  'run',
  'cancel',
  'resume',
  'browse',
  'export',
  'watch',
  'seen',
]);

export class Channel {
  readonly client: string;
  private session = '';
  private seen = 0;
  private acknowledged = 0;
  private next = 1;
  private unhandled: Sent[] = [];

  constructor(client: string) {
    this.client = client;
  }

  /** Put a command on its way; `outbox()` holds it until Python has handled it. */
  say(command: Command): void {
    this.unhandled.push({ n: this.next, command });
    this.next += 1;
  }

  /**
   * Take what Python sent. Gives the notices not seen before, in order, and whether the session is a
   * new one: then the caller says hello, and one-shot commands of the old session are dropped.
   */
  receive(inbox: Inbox): { notices: Notice[]; anew: boolean } {
    const anew = inbox.session !== this.session;
    if (anew) {
      this.session = inbox.session;
      this.seen = 0;
      this.acknowledged = 0;
    }
    if (inbox.client === this.client) this.unhandled = this.unhandled.filter(({ n }) => n > inbox.handled);
    if (anew) this.unhandled = this.unhandled.filter(({ command }) => !ONE_SHOT.has(command.type));
    const fresh = inbox.posted.filter(({ n }) => n > this.seen).sort((a, b) => a.n - b.n);
    this.seen = fresh.at(-1)?.n ?? this.seen;
    return { notices: fresh.map(({ notice }) => notice), anew };
  }

  /** The edits that Python has not handled, oldest first. */
  get edits(): MakeEdit[] {
    return this.unhandled.flatMap(({ command }) => (command.type === 'edit' ? [command] : []));
  }

  /** Whether Python does not know yet of something said, or of something seen. */
  get pending(): { commands: number; unseen: boolean } {
    return { commands: this.unhandled.length, unseen: this.seen > this.acknowledged };
  }

  /** The number of the oldest command not yet handled; null when there is none. */
  get oldest(): number | null {
    return this.unhandled[0]?.n ?? null;
  }

  /** All that Python has not acknowledged. Sending it twice does no harm. */
  outbox(): Outbox {
    this.acknowledged = this.seen;
    return { client: this.client, session: this.session, seen: this.seen, sent: [...this.unhandled] };
  }
}
