/** For tests: Python's end of the link, as ui/build/link.py, and a clock that the test moves. */

import type { Inbox, Outbox, Posted } from '../protocol';
import type { Command, Notice } from './channel';
import type { Timer } from './pacing';

/** Which commands were handled, by page; it outlives links. */
export class Handled {
  private readonly last = new Map<string, number>();

  of(client: string): number {
    return this.last.get(client) ?? 0;
  }

  claim(client: string, n: number): boolean {
    if (n <= this.of(client)) return false;
    this.last.set(client, n);
    return true;
  }
}

export class Counterpart {
  private client = '';
  private last = 0;
  private posted: Posted[] = [];

  constructor(
    readonly session: string,
    private readonly handled: Handled,
    private readonly handle: (command: Command) => void,
  ) {}

  /** A value of the browser's has come through. */
  receive(outbox: Outbox): void {
    this.client = outbox.client;
    if (outbox.session !== this.session) return;
    this.posted = this.posted.filter(({ n }) => n > outbox.seen);
    for (const { n, command } of [...outbox.sent].sort((a, b) => a.n - b.n)) {
      if (this.handled.claim(outbox.client, n)) this.handle(command);
    }
  }

  post(notice: Notice): void {
    this.last += 1;
    this.posted.push({ n: this.last, notice });
  }

  inbox(): Inbox {
    const { session, client, posted } = this;
    return { session, client, handled: this.handled.of(client), posted: [...posted] };
  }
}

/** A clock and its timers, to be moved on by hand. */
export class Clock implements Timer {
  time = 0;
  private waiting: { at: number; action: () => void }[] = [];

  readonly now = (): number => this.time;

  after(milliseconds: number, action: () => void): () => void {
    const entry = { at: this.time + milliseconds, action };
    this.waiting.push(entry);
    return () => {
      this.waiting = this.waiting.filter((other) => other !== entry);
    };
  }

  pass(milliseconds: number): void {
    const until = this.time + milliseconds;
    for (;;) {
      const [next] = this.waiting.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
      if (!next) break;
      this.waiting = this.waiting.filter((other) => other !== next);
      this.time = next.at;
      next.action();
    }
    this.time = until;
  }

  get idle(): boolean {
    return this.waiting.length === 0;
  }
}
