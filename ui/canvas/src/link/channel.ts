/**
 * The browser's end of the link to Python. Both directions are numbered and acknowledged, so that
 * every command and notice counts exactly once although connections drop and servers restart.
 */

import { isWhole } from '../document/ops';
import { NOT_RESENT, type Inbox, type MakeEdit, type Outbox, type Posted, type Sent } from '../protocol';

export type Command = Sent['command'];
export type Notice = Posted['notice'];

export class Channel {
  readonly client: string;
  private session = '';
  private seen = 0;
  private acknowledged = 0;
  private next = 1;
  private unhandled: Sent[] = [];
  /** The number of the last command that went out through the present connection. */
  private sent = 0;
  /** The number of the last command that ever went out: Python may have handled it, whatever became of the connection. */
  private out = 0;

  constructor(client: string) {
    this.client = client;
  }

  /**
   * Put a command on its way; `outbox()` holds it until Python has handled it. Gives the edit that it takes the place of:
   * a long text typed while nothing goes out would fill the memory, each letter with all before it.
   */
  say(command: Command): MakeEdit | null {
    const last = this.unhandled.at(-1);
    if (last && last.n > this.out && last.command.type === 'edit' && replaces(command, last.command)) {
      this.unhandled = [...this.unhandled.slice(0, -1), { n: last.n, command }];
      return last.command;
    }
    this.unhandled.push({ n: this.next, command });
    this.next += 1;
    return null;
  }

  /**
   * Take what Python sent. Gives the notices not seen before, in order, and whether the session is a
   * new one: then the caller says hello, and what only the old session was to do is dropped.
   */
  receive(inbox: Inbox): { notices: Notice[]; anew: boolean } {
    const anew = inbox.session !== this.session;
    if (anew) {
      this.session = inbox.session;
      this.seen = 0;
      this.acknowledged = 0;
      this.sent = 0;
    }
    if (inbox.client === this.client) this.unhandled = this.unhandled.filter(({ n }) => n > inbox.handled);
    if (anew) this.unhandled = this.unhandled.filter(({ command }) => !NOT_RESENT.includes(command.type));
    const fresh = inbox.posted.filter(({ n }) => n > this.seen).sort((a, b) => a.n - b.n);
    this.seen = fresh.at(-1)?.n ?? this.seen;
    return { notices: fresh.map(({ notice }) => notice), anew };
  }

  /** The edits that Python has not handled, oldest first. */
  get edits(): MakeEdit[] {
    return this.unhandled.flatMap(({ command }) => (command.type === 'edit' ? [command] : []));
  }

  /** Whether there is something to send: a command, or what was seen. */
  get pending(): boolean {
    return this.seen > this.acknowledged || this.unhandled.some(({ n }) => n > this.sent);
  }

  /** The number of the oldest command not yet handled; null when there is none. */
  get oldest(): number | null {
    return this.unhandled[0]?.n ?? null;
  }

  /** What went out through a connection that was lost goes out again. */
  reconnected(): void {
    this.sent = 0;
  }

  /** What Python has not acknowledged and the present connection has not taken. Sending it twice does no harm. */
  outbox(): Outbox {
    this.acknowledged = this.seen;
    const sent = this.unhandled.filter(({ n }) => n > this.sent);
    this.sent = this.next - 1;
    this.out = this.sent;
    return { client: this.client, session: this.session, seen: this.seen, sent };
  }
}

/** Whether nobody can tell if `before` was ever made: the one place that it changes is changed anew. */
function replaces(command: Command, before: MakeEdit): boolean {
  if (command.type !== 'edit' || command.document !== before.document) return false;
  const [op, ...more] = command.ops;
  const [was, ...others] = before.ops;
  if (!op || !was || more.length + others.length > 0 || isWhole(op)) return false;
  return JSON.stringify(op.path) === JSON.stringify(was.path);
}
