import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Doc, Op } from '../protocol';
import { docNode } from '../testing';
import { canonical, deed, doc, frozen, opsOf, unlawful } from '../arbitraries';
import { apply, compact, EMPTY, invert, isWhole, orderedNodes, remove, set } from './ops';

const key = fc.constantFrom('a', 'b', 'constructor', '__proto__', 'in');
const node = fc.record({
  type: fc.constant('Pass'),
  version: fc.constant(1),
  title: fc.string({ maxLength: 3 }),
  params: fc.dictionary(key, fc.integer()),
  position: fc.record({ x: fc.integer(), y: fc.integer() }),
  retries: fc.nat(3),
  timeout_s: fc.constant(null),
  ui: fc.constant({}),
  order: fc.nat(9),
});

/** Ops of every shape the protocol allows, whether or not they make sense where they land. */
const op: fc.Arbitrary<Op> = fc.oneof(
  fc.string({ maxLength: 3 }).map((text) => set(['description'], text)),
  fc.tuple(key, fc.integer()).map(([k, n]) => set(['ui', k], n)),
  key.map((k) => remove(['ui', k])),
  fc.tuple(key, fc.integer()).map(([k, n]) => set(['parameters', k], { value: n, help: '' })),
  key.map((k) => remove(['parameters', k])),
  key.map((k) => set(['edges', k], { source: `${k}.out`, target: 'b.in', order: 0 })),
  key.map((k) => remove(['edges', k])),
  fc.tuple(key, node).map(([k, n]) => set(['nodes', k], n)),
  key.map((k) => remove(['nodes', k])),
  fc.tuple(key, fc.string({ maxLength: 3 })).map(([k, t]) => set(['nodes', k, 'title'], t)),
  fc.tuple(key, key, fc.integer()).map(([k, p, n]) => set(['nodes', k, 'params', p], n)),
  fc.tuple(key, key).map(([k, p]) => remove(['nodes', k, 'params', p])),
);
const ops = fc.array(op, { maxLength: 12 });

describe('apply', () => {
  test('changes nothing in place', () => {
    fc.assert(
      fc.property(doc, ops, (before, steps) => {
        apply(frozen(before), frozen(steps));
      }),
    );
  });

  test('keeps the identity of what it does not touch', () => {
    const before = apply(EMPTY, [set(['nodes', 'a'], docNode()), set(['nodes', 'b'], docNode())]);
    const next = apply(before, [set(['nodes', 'a', 'title'], 'A')]);
    expect(next.nodes.a).not.toBe(before.nodes.a);
    expect(next.nodes.b).toBe(before.nodes.b);
    expect(next.edges).toBe(before.edges);
  });

  test('does nothing inside a node that is gone', () => {
    expect(apply(EMPTY, [set(['nodes', 'gone', 'title'], 'x'), set(['nodes', 'gone', 'params', 'p'], 1)])).toBe(EMPTY);
    expect(apply(EMPTY, [remove(['nodes', 'toString'])])).toBe(EMPTY);
  });
});

describe('invert', () => {
  test('takes arbitrary ops back', () => {
    fc.assert(
      fc.property(fc.oneof(doc, unlawful), ops, (before, steps) => {
        expect(canonical(apply(apply(before, steps), invert(before, steps)))).toBe(canonical(before));
      }),
    );
  });

  test('takes back what people do', () => {
    fc.assert(
      fc.property(fc.oneof(doc, unlawful), deed, (before, step) => {
        const made = opsOf(before, step);
        expect(canonical(apply(apply(before, made), invert(before, made)))).toBe(canonical(before));
      }),
    );
  });

  test('brings back wires that nobody could draw, and takes another one that was drawn meanwhile', () => {
    const START: Doc = {
      ...EMPTY,
      nodes: { a: docNode(), b: docNode(), c: docNode(), t: docNode() },
      edges: {
        'a.out->t.in': { source: 'a.out', target: 't.in', order: 0 },
        'b.out->t.in': { source: 'b.out', target: 't.in', order: 1 },
        'b.out->t.in#2': { source: 'b.out', target: 't.in', order: 2 },
        'gone.out->t.in': { source: 'gone.out', target: 't.in', order: 3 },
      },
    };
    const edits = [
      ['edges', 'a.out->t.in'],
      ['edges', 'gone.out->t.in'],
      ['nodes', 'b'],
      ['nodes', 't'],
    ].map(remove);
    for (const edit of [...edits, set(['nodes', 'gone'], docNode())]) {
      const now = apply(START, [edit]);
      const back = invert(START, [edit]);
      expect(apply(now, back)).toEqual(START);
      const wire = set(['edges', 'c.out->t.in'], { source: 'c.out', target: 't.in', order: 4 });
      const crossed = apply({ ...now, edges: { ...now.edges, ...apply(START, [wire]).edges } }, back);
      if (back.some(({ path }) => path[0] === 'edges')) expect(crossed).toEqual(START);
    }
  });

  test('of nothing is nothing', () => {
    expect(invert(EMPTY, [remove(['nodes', 'a']), set(['nodes', 'a', 'title'], 'x')])).toEqual([]);
  });
});

test('compact ops mean the same', () => {
  fc.assert(
    fc.property(doc, ops, (before, steps) => {
      const short = compact(steps);
      expect(canonical(apply(before, short))).toBe(canonical(apply(before, steps)));
      const parts = short.filter((each) => !isWhole(each)).map(({ path }) => JSON.stringify(path));
      expect(new Set(parts).size).toBe(parts.length);
    }),
  );
});

test('nodes come in the order of the file', () => {
  const made: Doc = apply(EMPTY, [
    set(['nodes', 'z'], docNode({ order: 0 })),
    set(['nodes', 'b'], docNode({ order: 1 })),
    set(['nodes', 'a'], docNode({ order: 1 })),
  ]);
  expect(orderedNodes(made).map(([id]) => id)).toEqual(['z', 'a', 'b']);
});
