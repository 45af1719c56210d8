/**
 * Which wires end where, looked up at once. Every card and port asks after each change, so the
 * answers are made once for each `edges` object, which keeps its identity while only nodes change.
 */

import type { Doc } from '../protocol';
import { end } from './ends';

type Edges = Doc['edges'];

export interface WiredPorts {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

interface Wires {
  /** By `node.port` of the input: the key of the wire into it. */
  readonly into: ReadonlyMap<string, string>;
  readonly ports: ReadonlyMap<string, string>;
}

const NONE = JSON.stringify({ inputs: [], outputs: [] } satisfies WiredPorts);
const indexes = new WeakMap<Edges, Wires>();

/** The key of the wire that ends in the input `target` (`node.port`). */
export function wireInto(edges: Edges, target: string): string | undefined {
  return wires(edges).into.get(target);
}

/** The names of a node's wired ports, as text that is equal when they are: see `readPorts`. */
export function wiredPorts(edges: Edges, node: string): string {
  return wires(edges).ports.get(node) ?? NONE;
}

export function readPorts(text: string): WiredPorts {
  return JSON.parse(text) as WiredPorts;
}

function wires(edges: Edges): Wires {
  const known = indexes.get(edges);
  if (known) return known;
  const into = new Map<string, string>();
  const inputs = new Map<string, Set<string>>();
  const outputs = new Map<string, Set<string>>();
  const ordered = Object.entries(edges).sort(([, a], [, b]) => a.order - b.order);
  for (const [key, edge] of ordered) {
    into.set(edge.target, key);
    put(outputs, edge.source);
    put(inputs, edge.target);
  }
  const ports = new Map<string, string>();
  for (const node of new Set([...inputs.keys(), ...outputs.keys()])) {
    const found: WiredPorts = { inputs: [...(inputs.get(node) ?? [])], outputs: [...(outputs.get(node) ?? [])] };
    ports.set(node, JSON.stringify(found));
  }
  const index = { into, ports };
  indexes.set(edges, index);
  return index;
}

function put(names: Map<string, Set<string>>, text: string): void {
  const { node, port } = end(text);
  const known = names.get(node);
  if (known) known.add(port);
  else names.set(node, new Set([port]));
}
