/**
 * The document as React Flow draws it. Items that did not change keep their identity, so a remote edit
 * or an undo redraws only what it touches; what a card shows is read by id inside the card.
 */

import type { Edge, Node } from '@xyflow/react';

import { end } from '../../document/ends';
import { orderedNodes } from '../../document/ops';
import type { Doc } from '../../protocol';
import { nameOf } from '../../rules/ports';
import type { Selection } from '../../state/state';

export type Card = Node<Record<string, never>, 'card'>;
export type Wire = Edge<Record<string, never>, 'wire'>;

const NO_DATA: Record<string, never> = {};

/** The cards of a document. With `selection` null each keeps its own mark: a box is being drawn around them. */
export function cards(doc: Doc, selection: Selection | null, before: Card[]): Card[] {
  const known = new Map(before.map((card) => [card.id, card]));
  const chosen = selection && new Set(selection.nodes);
  const next = orderedNodes(doc).map(([id, node]): Card => {
    const old = known.get(id);
    const selected = chosen ? chosen.has(id) : (old?.selected ?? false);
    const ariaLabel = node.title ? `${node.title}, ${node.type}` : node.type;
    if (!old) return { id, type: 'card', position: node.position, data: NO_DATA, selected, ariaLabel };
    // What the person drags stays in their hand, whatever arrives meanwhile.
    const position = old.dragging ? old.position : node.position;
    const moved = old.position.x !== position.x || old.position.y !== position.y;
    if (!moved && old.selected === selected && old.ariaLabel === ariaLabel) return old;
    return { ...old, position, selected, ariaLabel };
  });
  return unchanged(next, before) ? before : next;
}

/** The wires of a document. */
export function wires(doc: Doc, selection: Selection | null, before: Wire[]): Wire[] {
  const known = new Map(before.map((wire) => [wire.id, wire]));
  const chosen = selection && new Set(selection.edges);
  const next = Object.entries(doc.edges).map(([id, edge]): Wire => {
    const old = known.get(id);
    const selected = chosen ? chosen.has(id) : (old?.selected ?? false);
    const from = end(edge.source);
    const to = end(edge.target);
    const ariaLabel = `wire from ${from.port} of ${nameOf(doc, from.node)} to ${to.port} of ${nameOf(doc, to.node)}`;
    if (old?.selected === selected && old.ariaLabel === ariaLabel) return old;
    return {
      id,
      type: 'wire',
      source: from.node,
      sourceHandle: from.port,
      target: to.node,
      targetHandle: to.port,
      selected,
      ariaLabel,
    };
  });
  return unchanged(next, before) ? before : next;
}

function unchanged<T>(next: readonly T[], before: readonly T[]): boolean {
  return next.length === before.length && next.every((item, index) => item === before[index]);
}
