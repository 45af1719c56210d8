import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { brokenLaw, canonical, deed, doc, after } from '../arbitraries';
import { copyText, pasteText } from './clipboard';
import { end } from '../document/ends';
import { isId } from '../document/ids';
import { apply, EMPTY } from '../document/ops';

const chosen = fc.array(fc.nat(1000), { maxLength: 8 });

function ids(keys: string[], at: number[]): string[] {
  return [...new Set(at.flatMap((n) => (keys.length > 0 ? [keys[n % keys.length]!] : [])))];
}

describe('copy and paste', () => {
  test('keeps the wires among the nodes, and gives every node an id of its own', () => {
    fc.assert(
      fc.property(doc, doc, chosen, (from, into, at) => {
        const copied = ids(Object.keys(from.nodes), at);
        fc.pre(copied.length > 0);
        const pasted = pasteText(into, copyText(from, copied), { x: 10, y: 20 })!;
        const next = apply(into, pasted.ops);
        expect(pasted.ids).toHaveLength(copied.length);
        expect(pasted.ids.every((id) => isId(id) && !Object.hasOwn(into.nodes, id))).toBe(true);
        expect(new Set(Object.keys(next.nodes).map((id) => id.toLowerCase())).size).toBe(
          Object.keys(next.nodes).length,
        );
        expect(brokenLaw(next)).toBe('');

        // The pasted ids stand in the order in which the file holds the copied nodes.
        const inOrder = copied.sort((a, b) => from.nodes[a]!.order - from.nodes[b]!.order || (a < b ? -1 : 1));
        const renamed = new Map(inOrder.map((id, index) => [id, pasted.ids[index]!]));
        const inner = Object.values(from.edges)
          .filter((e) => renamed.has(end(e.source).node) && renamed.has(end(e.target).node))
          .map(({ source, target }) =>
            [source, target].map((t) => `${renamed.get(end(t).node)!}.${end(t).port}`).join('->'),
          );
        const fresh = Object.keys(next.edges).filter((key) => !Object.hasOwn(into.edges, key));
        expect(fresh.sort()).toEqual(inner.sort());

        for (const [old, id] of renamed) {
          const { position: _, order: __, ...copy } = next.nodes[id]!;
          const { position: ___, order: ____, ...original } = from.nodes[old]!;
          expect(canonical(copy)).toBe(canonical(original));
        }
        const corners = pasted.ids.map((id) => next.nodes[id]!.position);
        expect(Math.min(...corners.map(({ x }) => x))).toBe(10);
        expect(Math.min(...corners.map(({ y }) => y))).toBe(20);
      }),
    );
  });

  test('leaves what was there alone', () => {
    fc.assert(
      fc.property(doc, fc.array(deed, { maxLength: 10 }), (into, deeds) => {
        const from = after(EMPTY, deeds);
        const pasted = pasteText(into, copyText(from, Object.keys(from.nodes)), { x: 0, y: 0 });
        const next = apply(into, pasted?.ops ?? []);
        for (const [id, node] of Object.entries(into.nodes)) expect(next.nodes[id]).toBe(node);
        for (const [key, edge] of Object.entries(into.edges)) expect(next.edges[key]).toBe(edge);
      }),
    );
  });
});

describe('text from elsewhere', () => {
  const node = { type: 'Pass', position: { x: 0, y: 0 }, params: {} };
  const clip = (nodes: unknown, edges: unknown = []) => JSON.stringify({ format: 'voxelflow-nodes', nodes, edges });
  /** A node with so many lists in lists. */
  const nested = (field: 'params' | 'ui', depth: number) =>
    clip([{ id: 'a', node: { ...node, [field]: { x: 'HERE' } } }]).replace(
      '"HERE"',
      '['.repeat(depth) + ']'.repeat(depth),
    );

  test.each([
    ['no JSON', 'hello'],
    ['another JSON', '{"nodes": []}'],
    ['a list', '[]'],
    ['null', 'null'],
    ['no nodes', clip([])],
    ['nodes that are no list', clip({})],
    ['a node without a type', clip([{ id: 'a', node: { ...node, type: 1 } }])],
    ['a node without a place', clip([{ id: 'a', node: { ...node, position: { x: '1', y: 0 } } }])],
    ['an id that is none', clip([{ id: '../etc', node }])],
    [
      'one id twice',
      clip([
        { id: 'a', node },
        { id: 'a', node },
      ]),
    ],
    ['a value nested deeper than Python takes', nested('params', 100)],
    ['a value nested very deeply', nested('params', 100_000)],
    ['looks nested very deeply', nested('ui', 100_000)],
    ['a place that is no number', clip([{ id: 'a', node }]).replace('"x":0', '"x":1e999')],
    ['a value that JSON cannot say again', clip([{ id: 'a', node }]).replace('"params":{}', '"params":{"x":[-1e999]}')],
    ['a wire of numbers', clip([{ id: 'a', node }], [{ source: 1, target: 2 }])],
  ])('is not pasted: %s', (_, text) => {
    expect(pasteText(EMPTY, text, { x: 0, y: 0 })).toBeNull();
  });

  test('may be nested as deeply as Python takes it', () => {
    // The node is at depth 0, its parameters at 1, the outermost list at 2, the innermost at 100.
    expect(pasteText(EMPTY, nested('params', 99), { x: 0, y: 0 })?.ids).toEqual(['a']);
  });

  test('never makes a document that breaks a law', () => {
    fc.assert(
      fc.property(doc, fc.json(), (into, text) => {
        expect(brokenLaw(apply(into, pasteText(into, text, { x: 0, y: 0 })?.ops ?? []))).toBe('');
      }),
    );
  });

  test('gets the defaults for what it leaves out or has wrong', () => {
    const text = clip(
      [{ id: 'a', node: { ...node, retries: -1, timeout_s: 'x', title: 5, ui: [] } }],
      [
        { source: 'a.out', target: 'gone.in' },
        { source: 'a', target: 'a' },
      ],
    );
    const next = apply(EMPTY, pasteText(EMPTY, text, { x: 0, y: 0 })!.ops);
    expect(next.nodes.a).toMatchObject({ version: null, title: '', retries: 0, timeout_s: null, ui: {} });
    expect(Object.keys(next.edges)).not.toContain('a.out->gone.in');
  });
});
