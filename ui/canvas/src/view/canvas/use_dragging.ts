/** Moving cards: one edit when they are let go, and a card without wires may be dropped into a wire. */

import { useMemo, useRef } from 'react';

import type { NodeTypeInfo } from '../../protocol';
import { theEditor } from './editor';
import { nodeElement } from './focus';
import type { Card } from './items';
import { stage, type Point } from './stage';
import { hideTip } from './tips';

interface Dragging {
  onNodeDragStart: (event: unknown, node: Card, nodes: Card[]) => void;
  onNodeDrag: (event: MouseEvent | TouchEvent, node: Card) => void;
  onNodeDragStop: (event: unknown, node: Card, nodes: Card[]) => void;
}

export function useDragging(settle: () => void): Dragging {
  /** The type of the card in the hand, if that card may be dropped into a wire. */
  const loose = useRef<NodeTypeInfo>(undefined);
  return useMemo(
    () => ({
      onNodeDragStart: (_event, node, nodes) => {
        hideTip();
        loose.current = nodes.length === 1 ? theEditor()?.insertable(node.id) : undefined;
      },
      onNodeDrag: (event, node) => {
        if (loose.current) aim(loose.current, node.id, event);
      },
      onNodeDragStop: (_event, _node, nodes) => {
        const { target } = stage.getState();
        loose.current = undefined;
        if (target !== null) stage.setState({ target: null });
        theEditor()?.moved(new Map(nodes.map(({ id, position }) => [id, position])), target);
        settle();
      },
    }),
    [settle],
  );
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
