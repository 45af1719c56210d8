import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { deed, doc, opsOf } from '../../arbitraries';
import { apply, set } from '../../document/ops';
import { NOTHING } from '../../state/state';
import type { Doc } from '../../protocol';
import { annotationOf, cards, parted, wires } from './items';

describe('cards and wires', () => {
  test('are those of the document, and keep their identity while nothing of theirs changes', () => {
    fc.assert(
      fc.property(doc, deed, (start, step) => {
        const before = cards(start, NOTHING, []);
        const lines = wires(start, NOTHING, []);
        expect(cards(start, NOTHING, before)).toBe(before);
        expect(wires(start, NOTHING, lines)).toBe(lines);

        const next = apply(start, opsOf(start, step));
        const after = cards(next, NOTHING, before);
        const parts = parted(after.map(({ id }) => id));
        expect(parts.nodes.sort()).toEqual(Object.keys(next.nodes).sort());
        expect(parts.annotations.sort()).toEqual(Object.keys(next.annotations).sort());
        for (const card of after) {
          const drawn = annotationOf(card.id);
          const of = (doc: Doc) => (drawn === undefined ? doc.nodes[card.id] : doc.annotations[drawn]);
          expect(card.position).toEqual(of(next)?.position);
          const old = before.find(({ id }) => id === card.id);
          if (old && of(next) === of(start)) expect(card).toBe(old);
        }
        expect(
          wires(next, NOTHING, lines)
            .map(({ id }) => id)
            .sort(),
        ).toEqual(Object.keys(next.edges).sort());
      }),
    );
  });

  test('that are dragged stay in the hand, whatever arrives', () => {
    fc.assert(
      fc.property(doc, fc.nat(), (start, at) => {
        const ids = Object.keys(start.nodes);
        fc.pre(ids.length > 0);
        const id = ids[at % ids.length]!;
        const held = cards(start, NOTHING, []).map((card) =>
          card.id === id
            ? { ...card, position: { x: 7.5, y: 7.5 }, dragging: true, measured: { width: 9, height: 9 } }
            : card,
        );
        const next = apply(start, [set(['nodes', id, 'position'], { x: 1, y: 1 }), set(['nodes', id, 'title'], 'T')]);
        const card = cards(next, { nodes: [id], edges: [] }, held).find((c) => c.id === id)!;
        expect(card.position).toEqual({ x: 7.5, y: 7.5 });
        expect(card.selected).toBe(true);
        expect(card.measured).toEqual({ width: 9, height: 9 });
        const dropped = cards(next, NOTHING, [{ ...card, dragging: false }]).find((c) => c.id === id)!;
        expect(dropped.position).toEqual({ x: 1, y: 1 });
      }),
    );
  });

  test('frames lie below the cards, chosen or not, and the larger below the smaller', () => {
    fc.assert(
      fc.property(doc, fc.boolean(), (start, chosen) => {
        const annotations = Object.keys(start.annotations);
        const items = cards(start, { nodes: [], edges: [], annotations: chosen ? annotations : [] }, []);
        const frames = items.filter(({ type }) => type === 'frame');
        // What is selected is raised by a thousand.
        for (const { zIndex = 0, selected } of frames) expect(zIndex + (selected ? 1000 : 0)).toBeLessThan(0);
        const areas = frames.map(({ style }) => Number(style?.width) * Number(style?.height));
        expect(areas).toEqual([...areas].sort((a, b) => b - a));
      }),
    );
  });

  test('frames and notes have a size before they are measured, so that React Flow shows them, and a field, at once', () => {
    fc.assert(
      fc.property(doc, (start) => {
        for (const { id, initialWidth, initialHeight } of cards(start, NOTHING, [])) {
          const drawn = annotationOf(id);
          const { width, height } = (drawn === undefined ? undefined : start.annotations[drawn]) ?? {};
          expect({ width: initialWidth, height: initialHeight }).toEqual({ width, height });
        }
      }),
    );
  });

  test('keep their own mark while a box is drawn', () => {
    fc.assert(
      fc.property(doc, (start) => {
        const marked = cards(start, { nodes: Object.keys(start.nodes), edges: [] }, []);
        expect(cards(start, null, marked)).toBe(marked);
        expect(cards(start, NOTHING, marked).every(({ selected }) => !selected)).toBe(true);
      }),
    );
  });
});
