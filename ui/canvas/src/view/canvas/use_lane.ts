/** The lane of a wire, for all wires found at once whenever a card moves, comes, goes or grows. */

import { useStore, type InternalNode, type ReactFlowState } from '@xyflow/react';
import { shallow } from 'zustand/shallow';

import { annotationOf } from './items';
import { lanes, type Box, type Lane, type Point, type Strand } from './wire_lanes';

/** Undefined for a wire that runs behind nothing. */
export function useLane(wire: string): Lane | undefined {
  return useStore((s) => lanesOf(s).get(wire), shallow);
}

type Lanes = ReadonlyMap<string, Lane>;
/** By React Flow's list of cards, which is another one after each change: all wires ask. */
const known = new WeakMap<ReactFlowState['nodes'], { edges: ReactFlowState['edges']; lanes: Lanes }>();

function lanesOf({ nodes, edges, nodeLookup }: ReactFlowState): Lanes {
  const found = known.get(nodes);
  if (found?.edges === edges) return found.lanes;
  const boxes = new Map<string, Box>();
  for (const [id, node] of nodeLookup) {
    const box = annotationOf(id) === undefined ? boxOf(node) : null;
    if (box) boxes.set(id, box);
  }
  const strands = edges.flatMap(({ id, source, target, sourceHandle, targetHandle }): Strand[] => {
    const from = port(nodeLookup.get(source), 'source', sourceHandle);
    const to = port(nodeLookup.get(target), 'target', targetHandle);
    return from && to ? [{ id, source, target, from, to }] : [];
  });
  const made = lanes(boxes, strands);
  known.set(nodes, { edges, lanes: made });
  return made;
}

/** Where a card lies; null before it is measured. */
function boxOf({ measured, internals }: InternalNode): Box | null {
  const { x, y } = internals.positionAbsolute;
  const { width, height } = measured;
  return width === undefined || height === undefined ? null : { left: x, top: y, right: x + width, bottom: y + height };
}

/** Where a wire meets a port, as React Flow draws it. */
function port(
  node: InternalNode | undefined,
  side: 'source' | 'target',
  name: string | null | undefined,
): Point | null {
  const handle = node?.internals.handleBounds?.[side]?.find(({ id }) => id === name);
  if (!node || !handle) return null;
  const { x, y } = node.internals.positionAbsolute;
  return { x: x + handle.x + (side === 'source' ? handle.width : 0), y: y + handle.y + handle.height / 2 };
}
