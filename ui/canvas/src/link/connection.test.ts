import { beforeEach, describe, expect, test } from 'vitest';

import type { Inbox, Outbox } from '../protocol';
import { Connection, type Socket } from './connection';
import { Clock } from './counterpart';

class FakeSocket implements Socket {
  onmessage: Socket['onmessage'] = null;
  onclose: Socket['onclose'] = null;
  readonly sent: string[] = [];
  closed = false;

  constructor(
    readonly ticket: string,
    readonly at: number,
  ) {}

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.closed = true;
  }

  hears(handled: number): void {
    const inbox: Inbox = { session: 's', client: 'me', handled, posted: [] };
    (this.onmessage as (event: { data: string }) => void)({ data: JSON.stringify(inbox) });
  }

  drops(): void {
    (this.onclose as () => void)();
  }
}

let clock: Clock;
let sockets: FakeSocket[];
let received: number[];
let send: ((outbox: Outbox) => void) | null;
let connection: Connection;

const last = () => sockets.at(-1) as FakeSocket;

beforeEach(() => {
  clock = new Clock();
  sockets = [];
  received = [];
  send = null;
  const end = {
    receive: ({ handled }: Inbox) => received.push(handled),
    attach: (to: typeof send) => {
      send = to;
    },
  };
  const open = (ticket: string) => {
    sockets.push(new FakeSocket(ticket, clock.time));
    return last();
  };
  connection = new Connection(end, open, clock);
  connection.use('t');
});

describe('a connection', () => {
  test('is opened once for a ticket, and speaks after Python has', () => {
    connection.use('t');
    expect(sockets.map(({ ticket }) => ticket)).toEqual(['t']);
    expect(send).toBeNull();
    last().hears(1);
    expect(received).toEqual([1]);
    send?.({ client: 'me', session: 's', seen: 0, sent: [] });
    expect(last().sent).toEqual(['{"client":"me","session":"s","seen":0,"sent":[]}']);
  });

  test('that is lost is opened again, ever less often until Python answers', () => {
    const waits = [250, 500, 1000, 2000, 4000, 4000];
    for (const wait of waits) {
      last().drops();
      expect(send).toBeNull();
      clock.pass(wait - 1);
      const before = sockets.length;
      clock.pass(1);
      expect(sockets).toHaveLength(before + 1);
    }
    last().hears(1);
    expect(send).not.toBeNull();
    last().drops();
    clock.pass(250);
    expect(sockets).toHaveLength(waits.length + 2);
  });

  test('takes a new ticket at once: the server was started again', () => {
    const [old] = sockets;
    old?.drops();
    connection.use('u');
    expect(last().ticket).toBe('u');
    // What still comes through the old one counts no more.
    old?.hears(7);
    old?.drops();
    last().hears(1);
    clock.pass(10_000);
    expect(received).toEqual([1]);
    expect(sockets).toHaveLength(2);
  });

  test('that is silent for too long is taken as dead', () => {
    last().hears(1);
    clock.pass(49_999);
    last().hears(2);
    clock.pass(49_999);
    expect(sockets).toHaveLength(1);
    clock.pass(1);
    expect(sockets.map(({ closed }) => closed)).toEqual([true, false]);
    expect(send).toBeNull();
    // One that never opens, too.
    clock.pass(50_000);
    expect(sockets).toHaveLength(3);
  });

  test('ends when the canvas leaves the page, and begins when it comes back', () => {
    last().hears(1);
    connection.use(null);
    expect(last().closed).toBe(true);
    expect(send).toBeNull();
    last().drops();
    clock.pass(100_000);
    expect(sockets).toHaveLength(1);
    connection.use('t');
    expect(sockets).toHaveLength(2);
  });
});
