import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { doc, TYPES } from '../arbitraries';
import type { Doc } from '../protocol';
import { addAnnotation, framed } from './annotations';
import { arranged, framesAround, heaped } from './arrange';
import { USUAL_SIZE, type Size } from './sizes';
import { addNode, connect, moveNodes } from './edits';
import { end } from './ends';
import { apply, EMPTY } from './ops';

const size: fc.Arbitrary<Size> = fc.record({
  width: fc.integer({ min: 60, max: 400 }),
  height: fc.integer({ min: 30, max: 300 }),
});

describe('arranged', () => {
  test('no two nodes overlap, whatever their sizes', () => {
    fc.assert(
      fc.property(doc, fc.array(size, { minLength: 1, maxLength: 6 }), (start, some) => {
        const ids = Object.keys(start.nodes);
        const sizes = new Map(ids.map((id, index) => [id, some[index % some.length]!]));
        const places = arranged(start, sizes);
        expect([...places.keys()].sort()).toEqual([...ids].sort());
        for (const a of ids) {
          for (const b of ids) if (a < b) expect(overlap(places, sizes, a, b), `${a} and ${b}`).toBe(false);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('what is arranged no longer lies on one heap', () => {
    fc.assert(
      fc.property(doc, (start) => {
        const heap = apply(
          start,
          moveNodes(start, new Map(Object.keys(start.nodes).map((id) => [id, { x: 7, y: 7 }]))),
        );
        expect(heaped(heap)).toBe(Object.keys(start.nodes).length > 1);
        expect(heaped(apply(heap, moveNodes(heap, arranged(heap, new Map()))))).toBe(false);
      }),
    );
  });

  test('data flows to the right', () => {
    fc.assert(
      fc.property(doc, (start) => {
        const places = arranged(start, new Map());
        for (const { source, target } of Object.values(start.edges)) {
          const from = places.get(end(source).node)!;
          const to = places.get(end(target).node)!;
          expect(from.x + USUAL_SIZE.width).toBeLessThan(to.x);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('only the chosen nodes move, and their corner stays', () => {
    fc.assert(
      fc.property(doc, (start) => {
        const ids = Object.keys(start.nodes);
        fc.pre(ids.length > 2);
        const chosen = new Set(ids.slice(0, 2));
        const places = arranged(start, new Map(), chosen);
        expect(new Set(places.keys())).toEqual(chosen);
        const before = [...chosen].map((id) => start.nodes[id]!.position);
        expect(Math.min(...[...places.values()].map(({ x }) => x))).toBe(Math.min(...before.map(({ x }) => x)));
        expect(Math.min(...[...places.values()].map(({ y }) => y))).toBe(Math.min(...before.map(({ y }) => y)));
      }),
    );
  });

  test('twice is as once, where each frame holds what it held', () => {
    fc.assert(
      fc.property(doc, (start) => {
        const places = arranged(start, new Map());
        const once = apply(start, [...moveNodes(start, places), ...framesAround(start, places, new Map())]);
        // Of frames that overlap one may get another's node, and is drawn around it the next time.
        for (const id of Object.keys(start.annotations)) {
          fc.pre(framed(start, id, new Map()).nodes.join() === framed(once, id, new Map()).nodes.join());
        }
        expect(moveNodes(once, arranged(once, new Map()))).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });

  test('a frame within a frame stays there, and what is in neither stays outside of both', () => {
    let start = EMPTY;
    const places = [0, 300, 600, 1500].map((x) => ({ x, y: 100 }));
    for (const at of places) start = apply(start, addNode(start, TYPES.Pass!, at).ops);
    const [a, b, c, d] = Object.keys(start.nodes) as [string, string, string, string];
    for (const [from, to] of [
      [a, d],
      [d, b],
      [b, c],
    ] as const) {
      start = apply(start, connect(start, `${from}.out`, `${to}.in`));
    }
    const inner = addAnnotation(start, 'frame', { x: 280, y: 60, width: 580, height: 200 });
    start = apply(start, inner.ops);
    const outer = addAnnotation(start, 'frame', { x: -40, y: 0, width: 940, height: 300 });
    start = apply(start, outer.ops);
    const held = (doc: Doc, frame: string) => framed(doc, frame, new Map());
    expect(held(start, outer.id)).toEqual({ nodes: [a, b, c], annotations: [inner.id] });
    const to = arranged(start, new Map());
    const after = apply(start, [...moveNodes(start, to), ...framesAround(start, to, new Map())]);
    expect(held(after, inner.id)).toEqual({ nodes: [b, c], annotations: [] });
    expect(held(after, outer.id)).toEqual({ nodes: [a, b, c], annotations: [inner.id] });
    // Moved alone, the inner one is followed by the frame around it.
    const some = arranged(start, new Map(), new Set([b, c]));
    const near = new Map([...some].map(([id, { x, y }]) => [id, { x, y: y + 2000 }]));
    const moved = apply(start, [...moveNodes(start, near), ...framesAround(start, near, new Map())]);
    expect(held(moved, outer.id).annotations).toEqual([inner.id]);
  });

  test('a long chain is broken into lines that fit the window, and nothing overlaps', () => {
    let chain = EMPTY;
    for (let n = 0; n < 24; n += 1) chain = apply(chain, addNode(chain, TYPES.Pass!, { x: 0, y: 0 }).ops);
    const ids = Object.keys(chain.nodes);
    for (let n = 1; n < ids.length; n += 1) chain = apply(chain, connect(chain, `${ids[n - 1]!}.out`, `${ids[n]!}.in`));
    const shape = (places: ReadonlyMap<string, { x: number; y: number }>) => {
      const xs = [...places.values()].map(({ x }) => x);
      const ys = [...places.values()].map(({ y }) => y);
      const width = Math.max(...xs) - Math.min(...xs) + USUAL_SIZE.width;
      return width / (Math.max(...ys) - Math.min(...ys) + USUAL_SIZE.height);
    };
    expect(shape(arranged(chain, new Map()))).toBeGreaterThan(20);
    const places = arranged(chain, new Map(), undefined, { width: 800, height: 500 });
    expect(shape(places)).toBeGreaterThan(0.8);
    expect(shape(places)).toBeLessThan(3.2);
    const all = new Map(ids.map((id) => [id, USUAL_SIZE]));
    for (const a of ids) for (const b of ids) if (a < b) expect(overlap(places, all, a, b)).toBe(false);
  });

  test('whatever the window, no two nodes overlap', () => {
    fc.assert(
      fc.property(doc, size, (start, window) => {
        const ids = Object.keys(start.nodes);
        const places = arranged(start, new Map(), undefined, window);
        const all = new Map(ids.map((id) => [id, USUAL_SIZE]));
        for (const a of ids) for (const b of ids) if (a < b) expect(overlap(places, all, a, b)).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  test('nothing is arranged in an empty document', () => {
    expect(arranged(EMPTY, new Map()).size).toBe(0);
  });
});

function overlap(
  places: ReadonlyMap<string, { x: number; y: number }>,
  sizes: ReadonlyMap<string, Size>,
  a: string,
  b: string,
): boolean {
  const [p, q, s, t] = [places.get(a)!, places.get(b)!, sizes.get(a)!, sizes.get(b)!];
  return p.x < q.x + t.width && q.x < p.x + s.width && p.y < q.y + t.height && q.y < p.y + s.height;
}
