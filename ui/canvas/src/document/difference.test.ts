import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { canonical, doc, TYPES } from './arbitraries';
import { difference, opsBetween, summary } from './difference';
import { addNode, moveNodes, setMode, setParameter } from './edits';
import { apply, EMPTY, invert } from './ops';

describe('two versions', () => {
  test('the ops between them make the one of the other, and their inverse goes back', () => {
    fc.assert(
      fc.property(doc, doc, (from, to) => {
        const ops = opsBetween(from, to);
        const after = apply(from, ops);
        expect(canonical(after)).toBe(canonical({ ...to, name: from.name }));
        expect(canonical(apply(after, invert(from, ops)))).toBe(canonical(from));
      }),
    );
  });

  test('of the same document differ in nothing', () => {
    fc.assert(
      fc.property(doc, (same) => {
        const copy = structuredClone(same);
        expect(opsBetween(same, copy)).toEqual([]);
        expect(summary(difference(same, copy))).toBe('');
      }),
    );
  });

  test('what one has more, the other lacks', () => {
    fc.assert(
      fc.property(doc, doc, (a, b) => {
        const there = difference(a, b);
        const back = difference(b, a);
        for (const part of ['nodes', 'edges', 'annotations'] as const) {
          const of = (found: typeof there, wanted: string) =>
            [...found[part]]
              .filter(([, change]) => change === wanted)
              .map(([key]) => key)
              .sort();
          expect(of(there, 'added')).toEqual(of(back, 'removed'));
          expect(of(there, 'changed')).toEqual(of(back, 'changed'));
        }
      }),
    );
  });

  test('are described in words', () => {
    const first = apply(EMPTY, addNode(EMPTY, TYPES.Train!, { x: 0, y: 0 }).ops);
    const tuned = apply(first, setParameter(first, 'train', 'epochs', 20));
    expect(difference(first, tuned).lines).toEqual(['train: epochs default → 20']);
    expect(summary(difference(EMPTY, tuned))).toBe('1 node added');
    const off = apply(tuned, setMode(tuned, ['train'], 'disabled'));
    expect(difference(tuned, off).lines).toEqual(['train: mode run → disabled']);
    const moved = apply(off, moveNodes(off, new Map([['train', { x: 9, y: 9 }]])));
    expect(summary(difference(off, moved))).toBe('1 moved');
  });
});
