/** Auto-layout: data flows left to right, wires cross as little as may be. */

import dagre from '@dagrejs/dagre';

import type { Doc, DocPosition } from '../protocol';
import { end } from './ends';
import { orderedNodes } from './ops';

export interface Size {
  width: number;
  height: number;
}

export const USUAL_SIZE: Size = { width: 220, height: 96 };
const GAP_BETWEEN_COLUMNS = 72;
const GAP_BETWEEN_ROWS = 36;

/** New positions of all nodes, or of the `chosen` ones, whose top left corner then stays where it is. */
export function arranged(
  doc: Doc,
  sizes: ReadonlyMap<string, Size>,
  chosen?: ReadonlySet<string>,
): Map<string, DocPosition> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', ranksep: GAP_BETWEEN_COLUMNS, nodesep: GAP_BETWEEN_ROWS });
  graph.setDefaultEdgeLabel(() => ({}));
  const ids = orderedNodes(doc)
    .map(([id]) => id)
    .filter((id) => !chosen || chosen.size === 0 || chosen.has(id));
  // dagre keeps names in plain objects, where a node called `constructor` would be found before it is put.
  const names = new Map(ids.map((id, index) => [id, `n${index}`]));
  for (const [id, name] of names) graph.setNode(name, { ...(sizes.get(id) ?? USUAL_SIZE) });
  for (const edge of Object.values(doc.edges)) {
    const source = names.get(end(edge.source).node);
    const target = names.get(end(edge.target).node);
    if (source !== undefined && target !== undefined) graph.setEdge(source, target);
  }
  dagre.layout(graph);
  const corners = new Map<string, DocPosition>();
  for (const [id, name] of names) {
    const { x, y, width, height } = graph.node(name) as { x: number; y: number; width: number; height: number };
    corners.set(id, { x: x - width / 2, y: y - height / 2 });
  }
  return shifted(corners, topLeft(ids.map((id) => doc.nodes[id]?.position)));
}

/** Whether all of several nodes lie at one place: the document was written without positions. */
export function heaped(doc: Doc): boolean {
  const [first, ...rest] = Object.values(doc.nodes).map(({ position }) => position);
  return first !== undefined && rest.length > 0 && rest.every(({ x, y }) => x === first.x && y === first.y);
}

function topLeft(positions: readonly (DocPosition | undefined)[]): DocPosition {
  const known = positions.filter((p) => p !== undefined);
  if (known.length === 0) return { x: 0, y: 0 };
  return { x: Math.min(...known.map((p) => p.x)), y: Math.min(...known.map((p) => p.y)) };
}

function shifted(corners: Map<string, DocPosition>, to: DocPosition): Map<string, DocPosition> {
  const from = topLeft([...corners.values()]);
  return new Map(
    [...corners].map(([id, p]) => [id, { x: Math.round(p.x - from.x + to.x), y: Math.round(p.y - from.y + to.y) }]),
  );
}
