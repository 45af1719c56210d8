/** Sends each message at once, and notices when nothing gets through any more. */

import type { MakeEdit, Outbox } from '../protocol';
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

/** A command so long without an answer: the person should know that nothing gets through. */
const STALLED_MS = 5000;

export class Pacing {
  private send: ((outbox: Outbox) => void) | null = null;
  private awaited: number | null = null;
  private cancelStall: (() => void) | null = null;
  /** Called with true when nothing gets through any more, with false when it does again. */
  onStalled: (stalled: boolean) => void = () => undefined;

  constructor(
    private readonly channel: Channel,
    private readonly timer: Timer,
  ) {}

  /** Where outboxes go; null while there is no connection. */
  attach(send: ((outbox: Outbox) => void) | null): void {
    this.send = send;
    this.channel.reconnected();
    if (this.channel.pending) this.flush();
  }

  /** Say it; gives the edit that never went out and is not said any more. */
  say(command: Command): MakeEdit | null {
    const replaced = this.channel.say(command);
    this.await();
    this.flush();
    return replaced;
  }

  /** After something arrived: acknowledge it. */
  received(): void {
    this.await();
    if (this.channel.pending) this.flush();
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

  private flush(): void {
    this.send?.(this.channel.outbox());
  }
}
