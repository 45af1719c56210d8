import { beforeEach, describe, expect, test } from 'vitest';

import type { Inbox, Outbox } from '../protocol';
import { Channel, type Command, type Notice } from './channel';
import { Clock } from './counterpart';
import { Pacing } from './pacing';

const SAVE: Command = { type: 'save', document: 'd', overwrite: false };
const EDIT: Command = { type: 'edit', document: 'd', edit: 'e', ops: [] };
const NOTICE: Notice = { type: 'message', level: 'info', text: '', hint: '', node: null, parameter: null };

let clock: Clock;
let channel: Channel;
let pacing: Pacing;
let sent: { at: number; outbox: Outbox }[];
let stalls: boolean[];

function arrives(change: Partial<Inbox>): void {
  channel.receive({ session: 's', client: 'me', handled: 0, posted: [], ...change });
  pacing.received();
}

beforeEach(() => {
  clock = new Clock();
  channel = new Channel('me');
  pacing = new Pacing(channel, clock);
  sent = [];
  stalls = [];
  pacing.onStalled = (stalled) => stalls.push(stalled);
  pacing.attach((outbox) => sent.push({ at: clock.time, outbox }));
  arrives({});
});

describe('what is said', () => {
  test('goes at once, in order', () => {
    for (const command of [EDIT, EDIT, SAVE]) pacing.say(command);
    expect(sent.map(({ outbox }) => outbox.sent.map(({ command }) => command.type))).toEqual([
      ['edit'],
      ['edit'],
      ['save'],
    ]);
  });

  test('acknowledges what was seen, and so does what arrives with nothing to say', () => {
    arrives({ posted: [{ n: 1, notice: NOTICE }] });
    pacing.say(SAVE);
    arrives({ handled: 1 });
    clock.pass(60_000);
    expect(sent.map(({ outbox }) => [outbox.seen, outbox.sent.length])).toEqual([
      [1, 0],
      [1, 1],
    ]);
    expect(clock.idle).toBe(true);
  });

  test('what got no answer is said again through the next connection', () => {
    pacing.say(SAVE);
    clock.pass(10_000);
    expect(sent.map(({ at }) => at)).toEqual([0]);
    pacing.attach((outbox) => sent.push({ at: clock.time, outbox }));
    clock.pass(60_000);
    expect(sent.map(({ at, outbox }) => [at, outbox.sent.length])).toEqual([
      [0, 1],
      [10_000, 1],
    ]);
    arrives({ handled: 1 });
    expect(clock.idle).toBe(true);
  });

  test('without a connection nothing is lost', () => {
    pacing.attach(null);
    pacing.say(SAVE);
    clock.pass(10_000);
    expect(sent).toHaveLength(0);
    pacing.attach((outbox) => sent.push({ at: clock.time, outbox }));
    expect(sent[0]?.outbox.sent.map(({ command }) => command)).toEqual([SAVE]);
  });
});

describe('a connection that is lost', () => {
  test('is reported after five seconds without an answer, and taken back with the answer', () => {
    pacing.say(SAVE);
    clock.pass(4999);
    expect(stalls).not.toContain(true);
    clock.pass(1);
    expect(stalls.at(-1)).toBe(true);
    arrives({ handled: 1 });
    expect(stalls.at(-1)).toBe(false);
  });

  test('is not reported as long as commands are handled, however many wait', () => {
    for (let n = 1; n <= 10; n += 1) {
      pacing.say(EDIT);
      pacing.say(EDIT);
      clock.pass(3000);
      arrives({ handled: n });
    }
    expect(stalls).not.toContain(true);
  });

  test('is not reported when there is nothing to be answered', () => {
    arrives({ posted: [{ n: 1, notice: NOTICE }] });
    clock.pass(60_000);
    expect(stalls).not.toContain(true);
  });
});
