import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  addAnnotation,
  around,
  boxOf,
  framed,
  moveAnnotations,
  placeAnnotation,
  setColour,
  setText,
} from './annotations';
import { after, deed, doc, TYPES } from '../arbitraries';
import { arranged, framesAround } from './arrange';
import { addNode, moveNodes, removeItems } from './edits';
import { apply, EMPTY } from './ops';

const TWO = (() => {
  const first = apply(EMPTY, addNode(EMPTY, TYPES.Source!, { x: 0, y: 0 }).ops);
  return apply(first, addNode(first, TYPES.Pass!, { x: 1000, y: 0 }).ops);
})();

describe('a frame', () => {
  test('around nodes holds them, and nothing else', () => {
    const box = around(TWO, { nodes: ['source'], annotations: [] }, new Map())!;
    const { id, ops } = addAnnotation(TWO, 'frame', box);
    const made = apply(TWO, ops);
    expect(framed(made, id, new Map())).toEqual({ nodes: ['source'], annotations: [] });
    expect(made.nodes).toBe(TWO.nodes);
  });

  test('is never held by one that it holds', () => {
    fc.assert(
      fc.property(doc, (start) => {
        for (const id of Object.keys(start.annotations)) {
          for (const inner of framed(start, id, new Map()).annotations) {
            expect(framed(start, inner, new Map()).annotations).not.toContain(id);
          }
        }
      }),
    );
  });

  test('that is removed leaves what it held', () => {
    fc.assert(
      fc.property(doc, (start) => {
        const next = apply(start, removeItems(start, [], [], Object.keys(start.annotations)));
        expect(next).toEqual({ ...start, annotations: {} });
      }),
    );
  });

  test('holds after arranging what it held before', () => {
    fc.assert(
      fc.property(doc, fc.array(fc.nat(20), { minLength: 1, maxLength: 3 }), (start, at) => {
        const ids = Object.keys(start.nodes);
        fc.pre(ids.length > 1);
        const clean = apply(start, removeItems(start, [], [], Object.keys(start.annotations)));
        const spread = apply(clean, moveNodes(clean, arranged(clean, new Map())));
        const nodes = [...new Set(at.map((n) => ids[n % ids.length]!))];
        const { id, ops } = addAnnotation(spread, 'frame', around(spread, { nodes, annotations: [] }, new Map())!);
        const drawn = apply(spread, ops);
        const held = framed(drawn, id, new Map()).nodes;
        const places = arranged(drawn, new Map());
        const next = apply(drawn, [...moveNodes(drawn, places), ...framesAround(drawn, places, new Map())]);
        expect([...framed(next, id, new Map()).nodes].sort()).toEqual([...held].sort());
      }),
      { numRuns: 30 },
    );
  });
});

describe('annotations', () => {
  test('what changes nothing makes no op', () => {
    fc.assert(
      fc.property(doc, (start) => {
        for (const [id, item] of Object.entries(start.annotations)) {
          expect(setText(start, id, item.text)).toEqual([]);
          expect(setColour(start, [id], item.colour)).toEqual([]);
          expect(placeAnnotation(start, id, boxOf(item))).toEqual([]);
        }
        expect(moveAnnotations(start, new Map([['gone', { x: 1, y: 1 }]]))).toEqual([]);
      }),
    );
  });

  test('no deed of theirs touches nodes or wires, but for a frame that takes nodes along', () => {
    const kinds = ['frame', 'note', 'write', 'colour', 'resize', 'remove annotation'];
    fc.assert(
      fc.property(
        doc,
        fc.array(
          deed.map((d) => ({ ...d, do: kinds[d.a % kinds.length]! })),
          { maxLength: 8 },
        ),
        (start, deeds) => {
          const next = deeds.reduce((current, one) => after(current, [one]), start);
          expect(next.nodes).toBe(start.nodes);
          expect(next.edges).toBe(start.edges);
        },
      ),
    );
  });
});
