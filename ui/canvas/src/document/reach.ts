/** Which nodes data flows to, and from. */

import type { Doc } from '../protocol';
import { end } from './ends';

/** A node and all that its data flows into. */
export function downstream(doc: Doc, start: string): Set<string> {
  return flood(start, Object.values(doc.edges), (edge) => [edge.source, edge.target]);
}

/** A node and all whose data flows into it. */
export function upstream(doc: Doc, start: string): Set<string> {
  return flood(start, Object.values(doc.edges), (edge) => [edge.target, edge.source]);
}

type Edge = Doc['edges'][string];

function flood(start: string, edges: readonly Edge[], way: (edge: Edge) => [string, string]): Set<string> {
  const next = new Map<string, string[]>();
  for (const edge of edges) {
    const [from, to] = way(edge);
    const node = end(from).node;
    const known = next.get(node);
    if (known) known.push(end(to).node);
    else next.set(node, [end(to).node]);
  }
  const seen = new Set([start]);
  for (const node of seen) for (const other of next.get(node) ?? []) seen.add(other);
  return seen;
}
