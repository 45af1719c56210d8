/** The WebSocket to Python: open while the canvas is on the page, and opened again whenever it is lost. */

import { CANVAS_PATH, HEARTBEAT_S, SUBPROTOCOL, type Inbox, type Outbox } from '../protocol';
import type { Timer } from './pacing';

export type Socket = Pick<WebSocket, 'send' | 'close' | 'onmessage' | 'onclose'>;

/** What speaks and listens through the connection. */
interface End {
  receive(inbox: Inbox): void;
  attach(send: ((outbox: Outbox) => void) | null): void;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 4000;
/** A socket that was silent for so long is dead, though the browser may not know: a laptop slept, a network changed. */
const SILENT_MS = 2500 * HEARTBEAT_S;

export class Connection {
  private ticket: string | null = null;
  private socket: Socket | null = null;
  private wait = FIRST_WAIT_MS;
  private cancel: () => void = () => undefined;

  constructor(
    private readonly end: End,
    private readonly open: (ticket: string) => Socket,
    private readonly timer: Timer,
  ) {}

  /** Connect with this ticket; null ends the connection: the canvas has left the page. */
  use(ticket: string | null): void {
    if (ticket === this.ticket) return;
    this.ticket = ticket;
    this.wait = FIRST_WAIT_MS;
    this.reopen();
  }

  /** Leave the socket, which may be dead, for a new one. */
  reopen(): void {
    this.cancel();
    this.end.attach(null);
    const old = this.socket;
    this.socket = null;
    old?.close();
    if (this.ticket === null) return;
    const socket = this.open(this.ticket);
    this.socket = socket;
    let met = false;
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      if (socket !== this.socket) return;
      this.reopenIn(SILENT_MS);
      this.wait = FIRST_WAIT_MS;
      this.end.receive(JSON.parse(data) as Inbox);
      if (met) return;
      met = true;
      // Not before: what is said depends on whether Python's session is the one of before.
      this.end.attach((outbox) => {
        socket.send(JSON.stringify(outbox));
      });
    };
    socket.onclose = () => {
      if (socket !== this.socket) return;
      this.end.attach(null);
      this.reopenIn(this.wait);
      this.wait = Math.min(2 * this.wait, LONGEST_WAIT_MS);
    };
    this.reopenIn(SILENT_MS);
  }

  private reopenIn(milliseconds: number): void {
    this.cancel();
    this.cancel = this.timer.after(milliseconds, () => {
      this.reopen();
    });
  }
}

/** Connects to the app that the browser has this file from, which may be served below any path. */
export function openSocket(ticket: string): Socket {
  const url = new URL(CANVAS_PATH, import.meta.url.replace(/_stcore\/.*/, ''));
  url.protocol = url.protocol.replace('http', 'ws');
  return new WebSocket(url, [SUBPROTOCOL, ticket]);
}
