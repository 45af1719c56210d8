/**
 * The document as React Flow draws it. Items that did not change keep their identity, so a remote edit
 * or an undo redraws only what it touches; what a card shows is read by id inside the card.
 */

import type { Edge, Node } from '@xyflow/react';

import { end } from '../../document/ends';
import { orderedNodes } from '../../document/ops';
import type { Doc, DocNode, DocPosition } from '../../protocol';
import { nameOf } from '../../rules/ports';
import type { Selection } from '../../state/state';

/** A node's card, or a frame or note. */
export type Card = Node<Record<string, never>, 'card' | 'frame' | 'note'>;
export type Wire = Edge<Record<string, never>, 'wire'>;

const NO_DATA: Record<string, never> = {};
/** No node's id begins so: frames and notes are items of the same list. */
const DRAWN = '@';

/** What a frame or note is called among the cards. */
export function itemOf(annotation: string): string {
  return DRAWN + annotation;
}

/** The frame or note that an item is; undefined for a node's card. */
export function annotationOf(item: string): string | undefined {
  return item.startsWith(DRAWN) ? item.slice(DRAWN.length) : undefined;
}

/** Whether the document has what the item shows. */
export function isThere(doc: Doc, item: string): boolean {
  const annotation = annotationOf(item);
  return annotation === undefined ? Object.hasOwn(doc.nodes, item) : Object.hasOwn(doc.annotations, annotation);
}

/** Items by what they are in the document. */
export function parted(items: readonly string[]): { nodes: string[]; annotations: string[] } {
  return {
    nodes: items.filter((item) => annotationOf(item) === undefined),
    annotations: items.flatMap((item) => annotationOf(item) ?? []),
  };
}

/** The cards of a document. With `selection` null each keeps its own mark: a box is being drawn around them. */
export function cards(doc: Doc, selection: Selection | null, before: Card[]): Card[] {
  const known = new Map(before.map((card) => [card.id, card]));
  const chosen = selection && new Set(selection.nodes);
  const next = drawn(doc, selection, known);
  for (const [id, node] of orderedNodes(doc)) {
    next.push(card(id, node, chosen, known.get(id)));
  }
  return unchanged(next, before) ? before : next;
}

function card(id: string, node: DocNode, chosen: ReadonlySet<string> | null, old: Card | undefined): Card {
  const selected = chosen ? chosen.has(id) : (old?.selected ?? false);
  const ariaLabel = node.title ? `${node.title}, ${node.type}` : node.type;
  if (!old) return { id, type: 'card', position: node.position, data: NO_DATA, selected, ariaLabel };
  const position = placed(node, old);
  if (position === old.position && old.selected === selected && old.ariaLabel === ariaLabel) return old;
  return { ...old, position, selected, ariaLabel };
}

/** Frames and notes; frames lie below everything else, the larger below the smaller. */
function drawn(doc: Doc, selection: Selection | null, known: ReadonlyMap<string, Card>): Card[] {
  const all = Object.entries(doc.annotations);
  if (all.length === 0) return [];
  const chosen = selection && new Set(selection.annotations ?? []);
  const bySize = [...all].sort(([, a], [, b]) => b.width * b.height - a.width * a.height || a.order - b.order);
  return bySize.map(([name, item]): Card => {
    const id = itemOf(name);
    const old = known.get(id);
    const selected = chosen ? chosen.has(name) : (old?.selected ?? false);
    const ariaLabel = `${item.kind}${item.text ? `: ${item.text.slice(0, 80)}` : ''}`;
    const { width, height } = item;
    const same = old?.selected === selected && old.ariaLabel === ariaLabel;
    const position = old ? placed(item, old) : item.position;
    if (same && position === old.position && old.style?.width === width && old.style.height === height) return old;
    const frame = item.kind === 'frame';
    return {
      ...old,
      id,
      type: item.kind,
      position,
      data: NO_DATA,
      selected,
      ariaLabel,
      connectable: false,
      // What is selected is raised by a thousand: a frame stays below its nodes all the same.
      zIndex: frame ? (selected ? -1001 : -1) : 0,
      // React Flow hides what it has not measured. The field of a new note must take the first letters typed.
      initialWidth: width,
      initialHeight: height,
      style: frame ? { width, height, pointerEvents: 'none' } : { width, height },
      ...(frame ? { dragHandle: '.frame-title' } : {}),
    };
  });
}

/** Where an item is; its own object when nothing moved it. What the person drags stays in their hand. */
function placed({ position }: { position: DocPosition }, old: Card): DocPosition {
  const same = old.dragging || (old.position.x === position.x && old.position.y === position.y);
  return same ? old.position : position;
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
