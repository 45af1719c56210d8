import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Doc } from '../protocol';
import { canonical, doc, TYPES, unlawful } from '../arbitraries';
import { addAnnotation, placeAnnotation } from './annotations';
import { difference, isAlike, opsBetween, summary } from './difference';
import { addNode, moveNodes, setMode, setParameter, setPipelineParameter, setTitle } from './edits';
import { apply, EMPTY, invert } from './ops';

describe('two versions', () => {
  test('the ops between them make the one of the other, and their inverse goes back', () => {
    fc.assert(
      fc.property(fc.oneof(doc, unlawful), fc.oneof(doc, unlawful), (from, to) => {
        const ops = opsBetween(from, to);
        const after = apply(from, ops);
        expect(isAlike(after, to)).toBe(true);
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
    expect(difference(first, tuned).lines).toEqual(['Train: epochs default → 20']);
    expect(summary(difference(EMPTY, tuned))).toBe('1 node added');
    const off = apply(tuned, setMode(tuned, ['train'], 'disabled'));
    expect(difference(tuned, off).lines).toEqual(['Train: mode run → disabled']);
    const moved = apply(off, moveNodes(off, new Map([['train', { x: 9, y: 9 }]])));
    expect(summary(difference(off, moved))).toBe('1 moved');
  });

  test('name nodes as the canvas does, with the id where two share a name', () => {
    let first = apply(EMPTY, addNode(EMPTY, TYPES.Train!, { x: 0, y: 0 }).ops);
    first = apply(first, addNode(first, TYPES.Train!, { x: 300, y: 0 }).ops);
    const [one, two] = Object.keys(first.nodes) as [string, string];
    let tuned = apply(first, setParameter(first, one, 'epochs', 20));
    tuned = apply(tuned, setParameter(tuned, two, 'epochs', 30));
    const shared = [`Train (${one}): epochs default → 20`, `Train (${two}): epochs default → 30`];
    expect(difference(first, tuned).lines).toEqual(shared);
    const titled = apply(tuned, setTitle(tuned, two, 'Second try'));
    expect(difference(first, titled).lines).toContain('Second try: epochs default → 30');
  });

  test('differ in the help of a parameter, and in where a note lies and how large it is', () => {
    const first = apply(EMPTY, setPipelineParameter(EMPTY, 'n', 1, 'how many'));
    const told = apply(first, setPipelineParameter(first, 'n', 1, 'how few'));
    expect(difference(first, told).lines).toEqual(['n: help how many → how few']);
    const { id, ops } = addAnnotation(EMPTY, 'note', { x: 0, y: 0, width: 220, height: 120 });
    const noted = apply(EMPTY, ops);
    const moved = apply(noted, placeAnnotation(noted, id, { x: 50 }));
    expect(summary(difference(noted, moved))).toBe('1 moved');
    const larger = apply(noted, placeAnnotation(noted, id, { width: 400 }));
    expect(summary(difference(noted, larger))).toBe('1 resized');
    for (const other of [moved, larger]) expect(isAlike(noted, other)).toBe(false);
  });

  test('are alike when only their places are counted otherwise', () => {
    fc.assert(
      fc.property(doc, (one) => {
        const nodes = Object.entries(one.nodes).map(([id, node]) => [id, { ...node, order: 2 * node.order + 0.5 }]);
        expect(isAlike(one, { ...one, name: 'other', nodes: Object.fromEntries(nodes) as Doc['nodes'] })).toBe(true);
        expect(isAlike(one, { ...one, ui: { ...one.ui, theirs: true } })).toBe(false);
      }),
    );
  });
});
