/** Moving cards: one edit when they are let go, and a card without wires may be dropped into a wire. */

import { useMemo, useRef } from 'react';

import type { DocPosition, NodeTypeInfo } from '../../protocol';
import { theEditor } from './editor';
import { nodeElement } from '../parts/focus';
import type { Card } from './items';
import { stage, type Point } from './stage';
import { hideTip } from './tips';

interface Dragging {
  onNodeDragStart: (event: unknown, node: Card, nodes: Card[]) => void;
  onNodeDrag: (event: MouseEvent | TouchEvent, node: Card, nodes: Card[]) => void;
  onNodeDragStop: (event: unknown, node: Card, nodes: Card[]) => void;
}

type Carry = (positions: ReadonlyMap<string, DocPosition>, held: boolean) => void;

export function useDragging(settle: () => void, carry: Carry): Dragging {
  /** The type of the card in the hand, if that card may be dropped into a wire. */
  const loose = useRef<NodeTypeInfo>(undefined);
  /** What goes along with the frames in the hand, by where it was. */
  const along = useRef<ReadonlyMap<string, DocPosition>>(new Map());
  return useMemo(
    () => ({
      onNodeDragStart: (_event, node, nodes) => {
        hideTip();
        loose.current = nodes.length === 1 ? theEditor()?.insertable(node.id) : undefined;
        along.current = theEditor()?.followers(nodes.map(({ id }) => id)) ?? new Map<string, DocPosition>();
      },
      onNodeDrag: (event, node) => {
        if (loose.current) aim(loose.current, node.id, event);
        if (along.current.size > 0) carry(followed(along.current, node), true);
      },
      onNodeDragStop: (_event, node, nodes) => {
        const followers = followed(along.current, node);
        along.current = new Map();
        if (followers.size > 0) carry(followers, false);
        const { target } = stage.getState();
        loose.current = undefined;
        if (target !== null) stage.setState({ target: null });
        theEditor()?.moved(
          new Map([...nodes.map(({ id, position }) => [id, position] as const), ...followers]),
          target,
        );
        settle();
      },
    }),
    [settle, carry],
  );
}

/** Where the followers are, now that the item in the hand is where it is. */
function followed(along: ReadonlyMap<string, DocPosition>, hand: Card): Map<string, DocPosition> {
  const from = along.size > 0 ? theEditor()?.placeOf(hand.id) : undefined;
  if (!from) return new Map();
  const dx = hand.position.x - from.x;
  const dy = hand.position.y - from.y;
  return new Map([...along].map(([id, { x, y }]) => [id, { x: x + dx, y: y + dy }]));
}

/** Marks the wire under the pointer, or under the middle of the card, into which the node would go. */
function aim(type: NodeTypeInfo, node: string, event: MouseEvent | TouchEvent): void {
  const editor = theEditor();
  if (!editor) return;
  const places: Point[] = [];
  const touch = 'clientX' in event ? event : event.touches[0];
  if (touch) places.push({ x: touch.clientX, y: touch.clientY });
  const card = nodeElement(editor.frame, node)?.getBoundingClientRect();
  if (card) places.push({ x: card.left + card.width / 2, y: card.top + card.height / 2 });
  const target = editor.wireFor(type, places);
  if (stage.getState().target !== target) stage.setState({ target });
}
