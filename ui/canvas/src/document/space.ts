/** Space for a node that is put into a wire: the nodes downstream move to the right. */

import type { Doc, DocPosition } from '../protocol';
import { USUAL_SIZE, type Size } from './sizes';
import { end } from './ends';
import { own } from './own';
import { downstream } from './reach';

export const GAP = 56;

export interface Space {
  /** Where the new node goes. */
  at: DocPosition;
  /** New positions of the nodes downstream. */
  moved: Map<string, DocPosition>;
}

/** Where a node of `size` goes in the middle of the wire `edge`, and how far the nodes downstream move to the right. */
export function spaceInWire(doc: Doc, edge: string, size: Size, sizes: ReadonlyMap<string, Size>): Space | null {
  const wire = own(doc.edges, edge);
  if (!wire) return null;
  const before = end(wire.source).node;
  const target = end(wire.target).node;
  const from = own(doc.nodes, before)?.position;
  const to = own(doc.nodes, target)?.position;
  if (!from || !to) return null;
  const right = from.x + (sizes.get(before) ?? USUAL_SIZE).width;
  const free = to.x - right;
  const missing = Math.max(0, size.width + 2 * GAP - free);
  // Only when the wire runs to the right is there anything to push aside.
  const pushed = free > 0 ? missing : 0;
  const at = { x: Math.round((right + to.x + pushed - size.width) / 2), y: Math.round((from.y + to.y) / 2) };
  const moved = new Map<string, DocPosition>();
  if (pushed > 0) {
    for (const id of downstream(doc, target)) {
      const position = own(doc.nodes, id)?.position;
      if (position && id !== before) moved.set(id, { x: position.x + pushed, y: position.y });
    }
  }
  return { at, moved };
}
