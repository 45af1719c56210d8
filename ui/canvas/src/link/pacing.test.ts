import { beforeEach, describe, expect, test } from 'vitest';

import type { Inbox, Outbox } from '../protocol';
import { Channel, type Command, type Notice } from './channel';
import { Clock } from './counterpart';
import { Pacing } from './pacing';

const SAVE: Command = { type: 'save', document: 'd', overwrite: false };
const EDIT: Command = { type: 'edit', document: 'd', edit: 'e', ops: [] };
const NOTICE: Notice = { type: 'told', level: 'info', text: '', hint: '', node: null, parameter: null };

let clock: Clock;
let channel: Channel;
let pacing: Pacing;
let sent: { at: number; outbox: Outbox }[];
let stalls: boolean[];

function arrives(change: Partial<Inbox>, large = false): void {
  channel.receive({ session: 's', client: 'me', handled: 0, posted: [], ...change });
  pacing.received(large);
}

beforeEach(() => {
  clock = new Clock();
  channel = new Channel('me');
  pacing = new Pacing(channel, clock, clock.now);
  sent = [];
  stalls = [];
  pacing.onStalled = (stalled) => stalls.push(stalled);
  pacing.attach((outbox) => sent.push({ at: clock.time, outbox }));
  arrives({});
});

describe('when values are sent', () => {
  test('a command goes at once', () => {
    pacing.say(SAVE);
    clock.pass(0);
    expect(sent).toHaveLength(1);
  });

  test('letters typed within a moment go together', () => {
    for (let letter = 0; letter < 5; letter += 1) {
      pacing.say(EDIT);
      clock.pass(20);
    }
    clock.pass(200);
    expect(sent).toHaveLength(1);
    expect(sent[0]?.outbox.sent).toHaveLength(5);
  });

  test('a command takes with it what was typed before it, in order', () => {
    pacing.say(EDIT);
    pacing.say(SAVE);
    clock.pass(0);
    expect(sent[0]?.outbox.sent.map(({ command }) => command.type)).toEqual(['edit', 'save']);
  });

  test('what was seen is told lazily, and sooner when there was much of it', () => {
    arrives({ posted: [{ n: 1, notice: NOTICE }] });
    clock.pass(899);
    expect(sent).toHaveLength(0);
    clock.pass(1);
    expect(sent.map(({ outbox }) => outbox.seen)).toEqual([1]);
    arrives({ posted: [{ n: 2, notice: NOTICE }] }, true);
    clock.pass(120);
    expect(sent.map(({ outbox }) => outbox.seen)).toEqual([1, 2]);
  });

  test('nothing is sent when there is nothing to say', () => {
    arrives({});
    clock.pass(60_000);
    expect(sent).toHaveLength(0);
    expect(clock.idle).toBe(true);
  });

  test('what gets no answer is said again until it does', () => {
    pacing.say(SAVE);
    clock.pass(10_000);
    expect(sent.map(({ at }) => at)).toEqual([0, 2500, 5000, 7500, 10_000]);
    arrives({ handled: 1 });
    clock.pass(60_000);
    // The last one was on its way already.
    expect(sent.length).toBeLessThanOrEqual(6);
  });

  test('away from the page nothing is lost', () => {
    pacing.attach(null);
    pacing.say(SAVE);
    clock.pass(10_000);
    expect(sent).toHaveLength(0);
    pacing.attach((outbox) => sent.push({ at: clock.time, outbox }));
    clock.pass(0);
    expect(sent[0]?.outbox.sent.map(({ command }) => command)).toEqual([SAVE]);
  });
});

describe('a connection that is lost', () => {
  test('is told after five seconds without an answer, and taken back with the answer', () => {
    pacing.say(SAVE);
    clock.pass(4999);
    expect(stalls).not.toContain(true);
    clock.pass(1);
    expect(stalls.at(-1)).toBe(true);
    arrives({ handled: 1 });
    expect(stalls.at(-1)).toBe(false);
  });

  test('is not told as long as commands are handled, however many wait', () => {
    for (let n = 1; n <= 10; n += 1) {
      pacing.say(EDIT);
      pacing.say(EDIT);
      clock.pass(3000);
      arrives({ handled: n });
    }
    expect(stalls).not.toContain(true);
  });

  test('is not told when there is nothing to be answered', () => {
    arrives({ posted: [{ n: 1, notice: NOTICE }] });
    clock.pass(60_000);
    expect(stalls).not.toContain(true);
  });
});
