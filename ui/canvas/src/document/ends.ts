/** Ends of wires, written `node.port`, and the keys of edges. */

import type { Doc, DocEdge } from '../protocol';

export interface End {
  node: string;
  port: string;
}

export function end(text: string): End {
  const dot = text.indexOf('.');
  return dot < 0 ? { node: text, port: '' } : { node: text.slice(0, dot), port: text.slice(dot + 1) };
}

export function written(node: string, port: string): string {
  return `${node}.${port}`;
}

export function edgeKey(source: string, target: string): string {
  return `${source}->${target}`;
}

/** Edges by key that touch one of the nodes. */
export function edgesAt(doc: Doc, nodes: ReadonlySet<string>): [string, DocEdge][] {
  return Object.entries(doc.edges).filter(([, e]) => nodes.has(end(e.source).node) || nodes.has(end(e.target).node));
}

/** The edge that ends in the input `target`, by key. */
export function edgeInto(doc: Doc, target: string): [string, DocEdge] | undefined {
  return Object.entries(doc.edges).find(([, e]) => e.target === target);
}

export function nextOrder(items: Readonly<Record<string, { order: number }>>): number {
  return Object.values(items).reduce((most, item) => Math.max(most, item.order), -1) + 1;
}
