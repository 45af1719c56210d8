/** Which wires may be drawn: types that fit, and no cycles. The engine's checks say the same once more. */

import type { Doc, NodeTypeInfo, PortInfo } from '../protocol';
import { end } from '../document/ends';
import { own } from '../document/own';

/** Node types by name: the newest version of each. */
export type Types = Readonly<Record<string, NodeTypeInfo>>;

export type Side = 'input' | 'output';

export function port(doc: Doc, types: Types, node: string, side: Side, name: string): PortInfo | undefined {
  const type = own(types, own(doc.nodes, node)?.type ?? '');
  return (side === 'input' ? type?.inputs : type?.outputs)?.find((p) => p.name === name);
}

export function accepts(input: PortInfo, output: PortInfo): boolean {
  return input.kinds.some((kind) => output.kinds.includes(kind));
}

/** Why a wire from `source` to `target` (`node.port` each) can't be made, or "" when it can. */
export function whyNot(doc: Doc, types: Types, source: string, target: string): string {
  const from = end(source);
  const to = end(target);
  const output = port(doc, types, from.node, 'output', from.port);
  const input = port(doc, types, to.node, 'input', to.port);
  if (!output || !input) return 'This port is not known.';
  if (from.node === to.node) return 'A node cannot feed itself.';
  if (!accepts(input, output)) return `Takes ${listed(input.kinds)}, not ${listed(output.kinds)}.`;
  if (reaches(doc, to.node, from.node)) return 'That would be a cycle.';
  return '';
}

export function listed(kinds: readonly string[]): string {
  return kinds.join(' or ');
}

/** Whether data from `start` flows into `goal`, over any number of wires. */
export function reaches(doc: Doc, start: string, goal: string): boolean {
  const next = new Map<string, string[]>();
  for (const edge of Object.values(doc.edges)) {
    const from = end(edge.source).node;
    next.set(from, [...(next.get(from) ?? []), end(edge.target).node]);
  }
  const seen = new Set([start]);
  const open = [start];
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (node === goal) return true;
    for (const following of next.get(node) ?? []) {
      if (!seen.has(following)) {
        seen.add(following);
        open.push(following);
      }
    }
  }
  return false;
}

/** A node type that fits at the loose end of a wire, with its port that takes it. */
export interface Fit {
  type: NodeTypeInfo;
  port: PortInfo;
}

/** What can be put after an output (or before an input) of the kinds given: the first fitting port of each type. */
export function fitting(types: Types, kinds: readonly string[], looseEnd: Side): Fit[] {
  return Object.values(types).flatMap((type) => {
    const ports = looseEnd === 'input' ? type.inputs : type.outputs;
    const found = ports.find((p) => p.kinds.some((kind) => kinds.includes(kind)));
    return found ? [{ type, port: found }] : [];
  });
}

/** The ports with which a node of `type` can be put into the wire `edge`; null when it does not fit there. */
export function insertion(
  doc: Doc,
  types: Types,
  edge: string,
  type: NodeTypeInfo,
): { input: string; output: string } | null {
  const wire = own(doc.edges, edge);
  if (!wire) return null;
  const from = end(wire.source);
  const to = end(wire.target);
  const output = port(doc, types, from.node, 'output', from.port);
  const input = port(doc, types, to.node, 'input', to.port);
  if (!output || !input) return null;
  const into = type.inputs.find((p) => accepts(p, output));
  const out = type.outputs.find((p) => accepts(input, p));
  return into && out ? { input: into.name, output: out.name } : null;
}
