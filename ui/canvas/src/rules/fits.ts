/** What fits a wire that is being drawn, for all ports at once: a canvas of 500 nodes asks for every one of them. */

import type { Doc, NodeTypeInfo, PortInfo } from '../protocol';
import { end, written, type End } from '../document/ends';
import { own } from '../document/own';
import { downstream, upstream } from '../document/reach';
import { wireInto } from '../document/wires';
import { nameOf, typeOf } from './ports';
import { accepts, listed, whyNot, type Side, type Types } from './wiring';

export function opposite(side: Side): Side {
  return side === 'input' ? 'output' : 'input';
}

export function portsOn(type: NodeTypeInfo, side: Side): readonly PortInfo[] {
  return side === 'input' ? type.inputs : type.outputs;
}

/** A wire's two ends in the order data flows. */
export function directed(from: End, side: Side, to: End): { source: string; target: string } {
  const here = written(from.node, from.port);
  const there = written(to.node, to.port);
  return side === 'output' ? { source: here, target: there } : { source: there, target: here };
}

/**
 * By `node.port` of every port on the other side: why a wire from the port `from` can't end there, ""
 * where it can. The same answers as `whyNot`, in one pass.
 */
export function reasons(doc: Doc, types: Types, from: End, side: Side): Map<string, string> {
  const found = new Map<string, string>();
  const type = typeOf(doc, types, from.node);
  const start = type && portsOn(type, side).find(({ name }) => name === from.port);
  const circle = side === 'output' ? upstream(doc, from.node) : downstream(doc, from.node);
  for (const node of Object.keys(doc.nodes)) {
    const other = typeOf(doc, types, node);
    if (!other) continue;
    for (const port of portsOn(other, opposite(side))) {
      found.set(written(node, port.name), start ? reason(start, port) : 'This port is not known.');
    }
    function reason(mine: PortInfo, theirs: PortInfo): string {
      const [input, output] = side === 'output' ? [theirs, mine] : [mine, theirs];
      if (node === from.node) return 'A node cannot feed itself.';
      if (!accepts(input, output)) return `Takes ${listed(input.kinds)}, not ${listed(output.kinds)}.`;
      return circle.has(node) ? 'That would be a cycle.' : '';
    }
  }
  return found;
}

export type Landing = { port: string } | { why: string };

/** Where a wire ends that is dropped on a node's body: its first port that fits and is free. */
export function landing(doc: Doc, types: Types, from: End, side: Side, node: string): Landing {
  const type = typeOf(doc, types, node);
  if (!type) return { why: `The node type ${own(doc.nodes, node)?.type ?? node} is not known.` };
  const across = opposite(side);
  const answers = portsOn(type, across).map(({ name }) => {
    const { source, target } = directed(from, side, { node, port: name });
    return { name, target, why: whyNot(doc, types, source, target) };
  });
  const fitting = answers.filter(({ why }) => why === '');
  const free = fitting.find(({ target }) => across === 'output' || wireInto(doc.edges, target) === undefined);
  if (free) return { port: free.name };
  if (fitting.length > 0) return { why: `Every fitting input of ${nameOf(doc, node)} is taken.` };
  return { why: answers[0]?.why ?? `${nameOf(doc, node)} has no ${across}s.` };
}

/** The kinds at a port, for finding what fits its wire. */
export function kindsAt(doc: Doc, types: Types, at: End, side: Side): readonly string[] {
  const type = typeOf(doc, types, at.node);
  return (type && portsOn(type, side).find(({ name }) => name === at.port)?.kinds) ?? [];
}

/** Whether a node may be put into a wire by dropping it there: only one that no wire touches yet. */
export function isLoose(doc: Doc, node: string): boolean {
  return Object.values(doc.edges).every((e) => end(e.source).node !== node && end(e.target).node !== node);
}
