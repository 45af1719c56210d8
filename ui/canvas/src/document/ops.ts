/** Changes of a document as values: applied without mutation, and each with its inverse. */

import type { Doc, DocEdge, DocNode, JsonValue, Op } from '../protocol';
import { edgesAt, end } from './ends';

type Tree = { readonly [key: string]: unknown };

export function set(path: string[], value: JsonValue): Op {
  return { path, value, remove: false };
}

export function remove(path: string[]): Op {
  return { path, value: null, remove: true };
}

/** The document after `ops`, in order. What they do not touch keeps its identity, so views can compare by reference. */
export function apply(doc: Doc, ops: readonly Op[]): Doc {
  return ops.reduce((current, op) => withWires(current, op).reduce(applyOne, current), doc);
}

/**
 * An op and what it takes along, so that edits which cross leave no wire that nobody sees: a node goes with its wires, a
 * wire without one of its ends is not made, and an input keeps the newest of its wires. documents.py does the same.
 */
function withWires(doc: Doc, op: Op): readonly Op[] {
  const { exempt = [] } = op;
  const unfit = unfitAt(doc, op).filter((key) => !exempt.includes(key));
  const isMade = op.path[0] !== 'edges' || !unfit.includes(op.path[1] ?? '');
  return isMade ? [...unfit.map((key) => remove(['edges', key])), op] : [];
}

/** Keys of the wires that may not be there once the op is made; its own is among them when one of its ends is missing. */
function unfitAt(doc: Doc, op: Op): string[] {
  const [part, key, ...inside] = op.path;
  if (key === undefined || inside.length > 0) return [];
  if (part === 'nodes' && op.remove) return edgesAt(doc, new Set([key])).map(([wire]) => wire);
  if (part !== 'edges' || op.remove) return [];
  const { source = '', target = '' } = (op.value ?? {}) as Partial<DocEdge>;
  const isWhole = [source, target].every((text) => Object.hasOwn(doc.nodes, end(text).node));
  const inTheWay = Object.entries(doc.edges).filter(([, e]) => e.target === target && e.source !== source);
  return [...(isWhole ? [] : [key]), ...inTheWay.map(([wire]) => wire).filter((wire) => wire !== key)];
}

/**
 * The op that makes the place as it is in `doc`, with wires that no person could draw (a merge of two files leaves them).
 * What others draw meanwhile is judged.
 */
export function asIn(doc: Doc, op: Op): Op {
  const exempt = unfitAt(doc, op);
  return exempt.length === 0 ? op : { ...op, exempt };
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
  for (const whole of ops) {
    for (const op of withWires(current, whole)) {
      const next = applyOne(current, op);
      if (next !== current) inverse.unshift(asIn(current, inverseOf(current, op)));
      current = next;
    }
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

/**
 * Ops without those that a later one of the same path makes needless (typing sends a value a keystroke). Whole nodes and
 * wires stay: they take others along.
 */
export function compact(ops: readonly Op[]): Op[] {
  const last = new Map<string, number>();
  ops.forEach((op, index) => last.set(JSON.stringify(op.path), index));
  return ops.filter((op, index) => isWhole(op) || last.get(JSON.stringify(op.path)) === index);
}

/** Whether the op is about a node or a wire as a whole. */
export function isWhole({ path }: Op): boolean {
  return path.length === 2 && (path[0] === 'nodes' || path[0] === 'edges');
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
