/** Changes of a document as values: applied without mutation, and each with its inverse. */

import type { Doc, DocNode, JsonValue, Op } from '../protocol';

type Tree = { readonly [key: string]: unknown };

export function set(path: string[], value: JsonValue): Op {
  return { path, value, remove: false };
}

export function remove(path: string[]): Op {
  return { path, value: null, remove: true };
}

/** The document after `ops`, in order. What they do not touch keeps its identity, so views can compare by reference. */
export function apply(doc: Doc, ops: readonly Op[]): Doc {
  return ops.reduce(applyOne, doc);
}

function applyOne(doc: Doc, op: Op): Doc {
  if (op.path.length === 0) return doc;
  return changed(doc, op.path, op) as unknown as Doc;
}

function changed(tree: Tree, path: readonly string[], op: Op): Tree {
  const [key, ...rest] = path as [string, ...string[]];
  if (rest.length === 0) {
    if (!op.remove) return { ...tree, [key]: op.value };
    if (!Object.hasOwn(tree, key)) return tree;
    const { [key]: _, ...left } = tree;
    return left;
  }
  const child = Object.hasOwn(tree, key) ? tree[key] : undefined;
  // An op inside a node that is gone (someone else removed it) does nothing.
  if (typeof child !== 'object' || child === null) return tree;
  const next = changed(child as Tree, rest, op);
  return next === child ? tree : { ...tree, [key]: next };
}

/** The ops that take `ops` back when `doc` is the document before them. */
export function invert(doc: Doc, ops: readonly Op[]): Op[] {
  const inverse: Op[] = [];
  let current = doc;
  for (const op of ops) {
    const next = applyOne(current, op);
    if (next !== current) inverse.unshift(inverseOf(current, op));
    current = next;
  }
  return inverse;
}

function inverseOf(doc: Doc, op: Op): Op {
  let tree: unknown = doc;
  for (const key of op.path) {
    if (typeof tree !== 'object' || tree === null || !Object.hasOwn(tree, key)) return remove(op.path);
    tree = (tree as Tree)[key];
  }
  return set(op.path, tree as JsonValue);
}

/** Ops without those that a later one of the same path makes needless (typing sends a value a keystroke). */
export function compact(ops: readonly Op[]): Op[] {
  const last = new Map<string, number>();
  ops.forEach((op, index) => last.set(JSON.stringify(op.path), index));
  return ops.filter((op, index) => last.get(JSON.stringify(op.path)) === index);
}

export const EMPTY: Doc = {
  name: 'untitled',
  description: '',
  parameters: {},
  nodes: {},
  edges: {},
  annotations: {},
  ui: {},
};

/** Nodes in the order of the file. */
export function orderedNodes(doc: Doc): [string, DocNode][] {
  return Object.entries(doc.nodes).sort(([a, m], [b, n]) => m.order - n.order || (a < b ? -1 : 1));
}
