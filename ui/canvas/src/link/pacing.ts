/** When the outbox is sent: at once for a command, a little later for typing, lazily for mere acknowledgements. */

import type { Outbox } from '../protocol';
import type { Channel, Command } from './channel';

export interface Timer {
  after(milliseconds: number, action: () => void): () => void;
}

export const BROWSER_TIMER: Timer = {
  after(milliseconds, action) {
    const id = setTimeout(action, milliseconds);
    return () => {
      clearTimeout(id);
    };
  },
};

const TYPING_MS = 120;
const ACKNOWLEDGE_MS = 900;
const AGAIN_MS = 2500;
/** A command so long without an answer: the person should know that nothing gets through. */
const STALLED_MS = 5000;

export class Pacing {
  private send: ((outbox: Outbox) => void) | null = null;
  private cancel: (() => void) | null = null;
  private due = Infinity;
  private awaited: number | null = null;
  private cancelStall: (() => void) | null = null;
  /** Called with true when nothing gets through any more, with false when it does again. */
  onStalled: (stalled: boolean) => void = () => undefined;

  constructor(
    private readonly channel: Channel,
    private readonly timer: Timer,
    private readonly now: () => number,
  ) {}

  /** Where outboxes go; null while the component is not on the page. */
  attach(send: ((outbox: Outbox) => void) | null): void {
    this.send = send;
    if (send && this.channel.pending.commands > 0) this.within(0);
  }

  say(command: Command): void {
    this.channel.say(command);
    this.await();
    this.within(command.type === 'edit' ? TYPING_MS : 0);
  }

  /** After something arrived: acknowledge it in a while, and say again what is still not handled. */
  received(large: boolean): void {
    const { commands, unseen } = this.channel.pending;
    this.await();
    if (unseen) this.within(large ? TYPING_MS : ACKNOWLEDGE_MS);
    if (commands > 0) this.within(AGAIN_MS);
  }

  /** Time how long the oldest command waits; every one that is handled starts the clock anew. */
  private await(): void {
    const { oldest } = this.channel;
    if (oldest === this.awaited) return;
    this.awaited = oldest;
    this.cancelStall?.();
    this.cancelStall = null;
    this.onStalled(false);
    if (oldest === null) return;
    this.cancelStall = this.timer.after(STALLED_MS, () => {
      this.onStalled(true);
    });
  }

  private within(milliseconds: number): void {
    const at = this.now() + milliseconds;
    if (at >= this.due) return;
    this.cancel?.();
    this.due = at;
    this.cancel = this.timer.after(milliseconds, () => {
      this.flush();
    });
  }

  private flush(): void {
    this.due = Infinity;
    this.cancel = null;
    if (!this.send) return;
    this.send(this.channel.outbox());
    // A value sent while the connection is down is lost without a word.
    if (this.channel.pending.commands > 0) this.within(AGAIN_MS);
  }
}
