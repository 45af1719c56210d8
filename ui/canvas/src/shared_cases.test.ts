/** The browser's half of the tables in ui/protocol/cases; Python's is tests/ui/build/test_shared_cases.py. */

import { describe, expect, test } from 'vitest';

import { canonical, frozen } from './arbitraries';
import { apply, invert } from './document/ops';
import { plain } from './document/references';
import { Channel, type Command } from './link/channel';
import type { Doc, FieldInfo, JsonValue, Op, Opened } from './protocol';
import { readBy } from './rules/checks';
import { objection, refers, valueOf } from './rules/fields';
import { duration, moneyBetween } from './rules/figures';
import { readTime } from './rules/limit';
import { headline, sentence } from './rules/wording';
import { INITIAL, reduce } from './state/state';

/** As text: as a module, a key `__proto__` would not be a key. */
const FILES: Record<string, string> = import.meta.glob('../../protocol/cases/*.json', {
  query: '?raw',
  import: 'default',
  eager: true,
});
const RUN_HERE = ['commands', 'costs', 'declared', 'durations', 'fields', 'headlines', 'limits', 'ops'];

function table(name: string): unknown {
  return JSON.parse(FILES[`../../protocol/cases/${name}.json`]!);
}

/** The cases of a table. One with other keys than `keys` says something that its reader would leave out. */
function cases<T extends { name: string }>(name: string, ...keys: (keyof T)[]): T[] {
  const found = (table(name) as { cases: T[] }).cases;
  for (const each of found) {
    const unread = Object.keys(each).filter((key) => key !== 'name' && !keys.includes(key as keyof T));
    if (unread.length > 0) throw new Error(`${name}: ${each.name} has ${unread.join(', ')}`);
  }
  return found;
}

test('every table is run here', () => {
  const names = Object.keys(FILES).map((path) => path.replace(/^.*\/|\.json$/g, ''));
  expect(names.sort()).toEqual(RUN_HERE);
});

interface Edit {
  name: string;
  before: string;
  ops: Op[];
  after?: Partial<Doc>;
  inverse?: Op[];
  refused?: string;
}

describe('an edit shows what Python makes of it', () => {
  const { documents } = table('ops') as { documents: Record<string, Doc> };
  test.each(cases<Edit>('ops', 'before', 'ops', 'after', 'inverse', 'refused'))('$name', (edit) => {
    const before = frozen(documents[edit.before]!);
    const ops = frozen(edit.ops);
    const shown = apply(before, ops);
    const inverse = invert(before, ops);
    expect(canonical(apply(shown, inverse))).toBe(canonical(before));
    expect(Object.prototype).not.toHaveProperty('polluted');
    if (edit.refused === undefined) {
      expect(canonical(shown)).toBe(canonical({ ...before, ...edit.after }));
      expect(canonical(inverse)).toBe(canonical(edit.inverse));
    } else {
      // Python's answer is the document as it is: the tab shows that, whatever it had shown meanwhile.
      const opened: Opened = { type: 'opened', document: 'd', rev: 0, doc: before, edits: [] };
      const open = reduce(INITIAL, opened);
      const ahead = { ...open, doc: shown, pending: [{ edit: 'e', ops }] };
      const answered = reduce(ahead, { ...opened, edits: ['e'] });
      expect(canonical(answered.doc)).toBe(canonical(before));
      expect(answered.pending).toEqual([]);
    }
  });
});

interface Said {
  name: string;
  command: Command;
  once: boolean;
  resent: boolean;
}

test.each(cases<Said>('commands', 'command', 'once', 'resent'))(
  'a new session is sent again what still holds: $name',
  ({ command, resent }) => {
    const channel = new Channel('me');
    channel.receive({ session: 'one', client: '', handled: 0, posted: [] });
    channel.say(command);
    channel.receive({ session: 'two', client: '', handled: 0, posted: [] });
    expect(channel.outbox().sent.map((sent) => sent.command)).toEqual(resent ? [command] : []);
  },
);

interface Timed {
  name: string;
  seconds: number;
  text: string;
}

test.each(cases<Timed>('durations', 'seconds', 'text'))('a duration as Python writes it: $name', (timed) => {
  expect(duration(timed.seconds)).toBe(timed.text);
});

interface Message {
  name: string;
  message: string;
  headline: string;
}

test.each(cases<Message>('headlines', 'message', 'headline'))('a message begins as Python writes it: $name', (each) => {
  expect(headline(each.message)).toBe(each.headline);
});

interface Cost {
  name: string;
  low: number;
  high: number;
  currency: string;
  text: string;
}

test.each(cases<Cost>('costs', 'low', 'high', 'currency', 'text'))('a cost as Python writes it: $name', (cost) => {
  expect(moneyBetween(cost.low, cost.high, cost.currency)).toBe(cost.text);
});

interface LimitedTime {
  name: string;
  text: string;
  seconds: number | null;
}

test.each(cases<LimitedTime>('limits', 'text', 'seconds'))('a time to stop after as Python reads it: $name', (time) => {
  expect(readTime(time.text)).toBe(time.seconds);
});

interface Filled {
  name: string;
  field: string;
  typed?: string;
  holds?: JsonValue;
  reads?: JsonValue;
  message?: string;
  open?: true;
}

describe('a form takes what a run reads', () => {
  const fields = table('declared') as Record<string, FieldInfo>;
  test.each(cases<Filled>('fields', 'field', 'typed', 'holds', 'reads', 'message', 'open'))('$name', (filled) => {
    const { typed, holds, reads, message, open } = filled;
    const field = fields[filled.field]!;
    if (typed !== undefined) expect(valueOf(field, typed)).toEqual(holds);
    expect(objection(field, holds)).toBe(message === undefined ? '' : sentence(message));
    const takes = [holds].flat().some((value) => refers(value));
    expect(takes).toBe(open ?? false);
    if (open || message !== undefined) return;
    const value = holds === undefined ? field.default : plain(holds);
    expect(value === null ? { value } : readBy(field.rules, value)).toEqual({ value: reads });
  });
});
