import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { set } from '../document/ops';
import type { Inbox, Outbox } from '../protocol';
import { Channel, type Command, type Notice } from './channel';
import { Counterpart, Handled } from './counterpart';

const save = (document: string): Command => ({ type: 'save', document, overwrite: false });
const cancel = (run_id: string): Command => ({ type: 'cancel', run_id });
const message = (text: string): Notice => ({
  type: 'message',
  level: 'info',
  text,
  hint: '',
  node: null,
  parameter: null,
});

function inbox(change: Partial<Inbox>): Inbox {
  return { session: 's', client: 'me', handled: 0, posted: [], ...change };
}

describe('one end', () => {
  test('a command goes out once through a connection, and through each further one until it is handled', () => {
    const channel = new Channel('me');
    const numbers = () => channel.outbox().sent.map(({ n }) => n);
    channel.receive(inbox({}));
    channel.say(save('a'));
    channel.say(save('b'));
    expect(numbers()).toEqual([1, 2]);
    expect(numbers()).toEqual([]);
    channel.reconnected();
    expect(numbers()).toEqual([1, 2]);
    channel.receive(inbox({ handled: 1 }));
    channel.reconnected();
    expect(numbers()).toEqual([2]);
    expect(channel.oldest).toBe(2);
    channel.receive(inbox({ handled: 2 }));
    expect(channel.oldest).toBeNull();
  });

  test('an edit that never went out gives way to the next of the same place, and another keeps its own number', () => {
    const channel = new Channel('me');
    const say = (edit: string, path: string[], document = 'd') =>
      channel.say({ type: 'edit', document, edit, ops: [set(path, edit)] })?.edit;
    channel.receive(inbox({}));
    expect([say('a', ['nodes', 'n', 'title']), say('b', ['nodes', 'n', 'title'])]).toEqual([undefined, 'a']);
    expect(channel.outbox().sent.map(({ n }) => n)).toEqual([1]);
    // It may have arrived, though the connection is lost.
    channel.reconnected();
    expect(say('c', ['nodes', 'n', 'title'])).toBeUndefined();
    // A whole node takes its wires along; and what comes between must find what was there then.
    expect([say('d', ['nodes', 'n']), say('e', ['nodes', 'n'])]).toEqual([undefined, undefined]);
    expect([say('f', ['ui', 'k']), say('g', ['ui', 'k'], 'another')]).toEqual([undefined, undefined]);
    channel.say(save('d'));
    expect(say('h', ['ui', 'k'], 'another')).toBeUndefined();
    expect(channel.edits.map(({ edit }) => edit)).toEqual(['b', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect(channel.outbox().sent.map(({ n }) => n)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  test('what was handled of another page says nothing about ours', () => {
    const channel = new Channel('me');
    channel.say(save('a'));
    channel.receive(inbox({ client: 'another', handled: 7 }));
    expect(channel.outbox().sent).toHaveLength(1);
  });

  test('a notice counts once, in the order of the numbers', () => {
    const channel = new Channel('me');
    const posted = [
      { n: 2, notice: message('b') },
      { n: 1, notice: message('a') },
    ];
    expect(channel.receive(inbox({ posted })).notices).toEqual([message('a'), message('b')]);
    expect(channel.receive(inbox({ posted })).notices).toEqual([]);
    expect(channel.pending).toBe(true);
    expect(channel.outbox().seen).toBe(2);
    expect(channel.pending).toBe(false);
  });

  test('a new session forgets wishes for the moment and keeps the work', () => {
    const channel = new Channel('me');
    channel.receive(inbox({}));
    for (const command of [save('a'), cancel('r'), { type: 'watch', node: 'n' } as const]) channel.say(command);
    const { anew } = channel.receive(inbox({ session: 't', posted: [{ n: 1, notice: message('hi') }] }));
    expect(anew).toBe(true);
    expect(channel.outbox()).toEqual({ client: 'me', session: 't', seen: 1, sent: [{ n: 1, command: save('a') }] });
  });
});

// --- both ends, with everything in between that can go wrong ---------------------------------------

type Event =
  | { is: 'say'; keep: boolean }
  | { is: 'post' }
  /** What is new arrives at the other end. */
  | { is: 'out' }
  | { is: 'in' }
  /** The last value that arrived arrives once more. */
  | { is: 'out again' }
  | { is: 'in again' }
  /** What is new is lost with the connection, and there is another. */
  | { is: 'cut' }
  | { is: 'session' };

const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 4, arbitrary: fc.boolean().map((keep): Event => ({ is: 'say', keep })) },
  { weight: 4, arbitrary: fc.constant<Event>({ is: 'post' }) },
  { weight: 4, arbitrary: fc.constantFrom<Event>({ is: 'out' }, { is: 'in' }) },
  { weight: 2, arbitrary: fc.constantFrom<Event>({ is: 'out again' }, { is: 'in again' }) },
  { weight: 1, arbitrary: fc.constantFrom<Event>({ is: 'cut' }, { is: 'session' }) },
);

/** What was said and posted, and what arrived, after a history of events and a quiet end. */
function played(events: readonly Event[]) {
  const channel = new Channel('me');
  const handled = new Handled();
  const said: string[] = [];
  const wishes: string[] = [];
  const done: string[] = [];
  const posted = new Map<string, string[]>();
  const seen = new Map<string, string[]>();
  const handle = (command: Command) => {
    if (command.type === 'save') done.push(command.document);
    if (command.type === 'cancel') done.push(command.run_id);
  };
  let sessions = 0;
  const link = () => {
    sessions += 1;
    posted.set(`s${sessions}`, []);
    seen.set(`s${sessions}`, []);
    return new Counterpart(`s${sessions}`, handled, handle);
  };
  let server = link();
  let lastOut: Outbox | null = null;
  let lastIn: Inbox | null = null;
  const arrive = (value: Inbox) => {
    const texts = channel.receive(value).notices.map((notice) => (notice.type === 'message' ? notice.text : '?'));
    seen.get(value.session)?.push(...texts);
  };
  const steps: Record<Event['is'], (event: Event) => void> = {
    say: (which) => {
      const name = `c${said.length + wishes.length}`;
      const kept = which.is === 'say' && which.keep;
      (kept ? said : wishes).push(name);
      channel.say(kept ? save(name) : cancel(name));
    },
    post: () => {
      const texts = posted.get(server.session) ?? [];
      const name = `${server.session} n${texts.length}`;
      texts.push(name);
      server.post(message(name));
    },
    out: () => {
      lastOut = structuredClone(channel.outbox());
      server.receive(lastOut);
    },
    in: () => {
      lastIn = structuredClone(server.inbox());
      arrive(lastIn);
    },
    'out again': () => {
      if (lastOut) server.receive(lastOut);
    },
    'in again': () => {
      if (lastIn) arrive(lastIn);
    },
    cut: () => {
      channel.outbox();
      channel.reconnected();
    },
    session: () => {
      server = link();
      lastIn = null;
    },
  };
  steps.in({ is: 'in' });
  for (const each of events) steps[each.is](each);
  for (let round = 0; round < 3; round += 1) for (const is of ['in', 'out'] as const) steps[is]({ is });
  steps.in({ is: 'in' });
  return { said, wishes, done, posted, seen, session: server.session, channel };
}

test('every command is done once and in order, whatever is lost, repeated or cut off', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const { said, wishes, done, channel } = played(events);
      expect(done.filter((name) => said.includes(name))).toEqual(said);
      expect(new Set(done).size).toBe(done.length);
      expect([...done].sort(byNumber)).toEqual(done);
      // A wish for the moment may go with its session, but is never done twice.
      const cut = events.some(({ is }) => is === 'session');
      if (!cut) expect(done).toHaveLength(said.length + wishes.length);
      expect(channel.oldest).toBeNull();
    }),
    { numRuns: 500 },
  );
});

test('every notice of a session is seen once and in order', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 60 }), (events) => {
      const { posted, seen, session } = played(events);
      for (const [name, texts] of seen) expect(texts).toEqual((posted.get(name) ?? []).slice(0, texts.length));
      expect(seen.get(session)).toEqual(posted.get(session));
    }),
    { numRuns: 500 },
  );
});

function byNumber(a: string, b: string): number {
  return Number(a.slice(1)) - Number(b.slice(1));
}
