/** How two versions of a document differ, and the ops that make the one of the other. */

import type { Doc, JsonValue, Op } from '../protocol';
import { asIn, remove, set } from './ops';
import { own } from './own';

export type Change = 'added' | 'removed' | 'changed' | 'same';

export interface Difference {
  /** By id or key, of all that either has. A node that was only moved is the same. */
  readonly nodes: ReadonlyMap<string, Change>;
  readonly edges: ReadonlyMap<string, Change>;
  readonly annotations: ReadonlyMap<string, Change>;
  /** A line for each change in a node or a parameter: `Train ResNet-18: epochs 5 → 20`. */
  readonly lines: readonly string[];
  /** Nodes, frames and notes that have another place. */
  readonly moved: number;
  /** Frames and notes that have another size. */
  readonly resized: number;
}

const LONGEST = 60;

export function difference(before: Doc, after: Doc): Difference {
  const nodes = changes(before.nodes, after.nodes, ({ position: _, order: __, ui: ___, ...rest }) => rest);
  const edges = changes(before.edges, after.edges, ({ source, target }) => ({ source, target }));
  const annotations = changes(before.annotations, after.annotations, ({ kind, text, colour }) => ({
    kind,
    text,
    colour,
  }));
  const moved =
    inBoth(before.nodes, after.nodes, (was, is) => !equal(was.position, is.position)) +
    inBoth(before.annotations, after.annotations, (was, is) => !equal(was.position, is.position));
  const resized = inBoth(
    before.annotations,
    after.annotations,
    (was, is) => was.width !== is.width || was.height !== is.height,
  );
  const names = namesInBoth(before, after);
  const lines = [
    ...(before.description === after.description ? [] : ['the description']),
    ...fields('', values(before), values(after)),
    ...helps(before, after),
    ...[...nodes].flatMap(([id, change]) =>
      change === 'changed' ? ofNode(id, own(names, id) ?? id, before, after) : [],
    ),
  ];
  return { nodes, edges, annotations, lines, moved, resized };
}

/** What each kind of change is about, in words: `2 nodes added, 1 wire removed`; "" when nothing differs. */
export function summary({ nodes, edges, annotations, lines, moved, resized }: Difference): string {
  const words = (['added', 'removed', 'changed'] as const).flatMap((change) => [
    numbered(nodes, change, 'node'),
    numbered(edges, change, 'wire'),
    numbered(annotations, change, 'annotation'),
  ]);
  if (moved > 0) words.push(`${moved} moved`);
  if (resized > 0) words.push(`${resized} resized`);
  const found = words.filter((word) => word !== '').join(', ');
  return found !== '' ? found : lines.join(', ') && `changed: ${lines.join(', ')}`;
}

/** The ops that make `to` of `from`, but for the name. What is equal is left alone. */
export function opsBetween(from: Doc, to: Doc): Op[] {
  const taken: Op[] = [];
  const made: Op[] = [];
  // Wires are taken away before their nodes, and drawn after them.
  for (const part of ['edges', 'nodes', 'parameters', 'annotations', 'ui'] as const) {
    for (const key of Object.keys(from[part])) if (!Object.hasOwn(to[part], key)) taken.push(remove([part, key]));
  }
  for (const part of ['parameters', 'nodes', 'edges', 'annotations', 'ui'] as const) {
    for (const [key, value] of Object.entries(to[part] as Readonly<Record<string, JsonValue>>)) {
      if (!equal(own<unknown>(from[part], key), value)) made.push(set([part, key], value));
    }
  }
  if (from.description !== to.description) made.push(set(['description'], to.description));
  return [...taken, ...made].map((op) => asIn(to, op));
}

/** Whether both would be written alike, but for the name: places in the file are counted anew there. */
export function isAlike(one: Doc, other: Doc): boolean {
  return opsBetween(counted(one), counted(other)).length === 0;
}

function counted(doc: Doc): Doc {
  return { ...doc, nodes: inOrder(doc.nodes), edges: inOrder(doc.edges), annotations: inOrder(doc.annotations) };
}

function inOrder<T extends { order: number }>(items: Readonly<Record<string, T>>): Record<string, T> {
  const sorted = Object.entries(items).sort(([a, m], [b, n]) => m.order - n.order || (a < b ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, item], order) => [key, { ...item, order }]));
}

/** How many that both have differ so. */
function inBoth<T>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  differ: (was: T, is: T) => boolean,
): number {
  return Object.entries(before).filter(([key, was]) => {
    const is = own(after, key);
    return is !== undefined && differ(was, is);
  }).length;
}

function changes<T>(
  before: Readonly<Record<string, T>>,
  after: Readonly<Record<string, T>>,
  comparable: (item: T) => unknown,
): Map<string, Change> {
  const out = new Map<string, Change>();
  for (const [key, item] of Object.entries(before)) {
    const now = own(after, key);
    out.set(key, now === undefined ? 'removed' : equal(comparable(item), comparable(now)) ? 'same' : 'changed');
  }
  for (const key of Object.keys(after)) if (!out.has(key)) out.set(key, 'added');
  return out;
}

/** What nodes are called, by id: a node of both as in `after`, with its id where two share a name. As Python's names. */
function namesInBoth(before: Doc, after: Doc): Readonly<Record<string, string>> {
  const nodes = Object.entries({ ...before.nodes, ...after.nodes });
  const named = nodes.map(([id, { title, type }]) => [id, title || type] as const);
  const uses = new Map<string, number>();
  for (const [, name] of named) uses.set(name, (uses.get(name) ?? 0) + 1);
  return Object.fromEntries(named.map(([id, name]) => [id, uses.get(name) === 1 ? name : `${name} (${id})`]));
}

function ofNode(id: string, name: string, before: Doc, after: Doc): string[] {
  const [was, is] = [own(before.nodes, id), own(after.nodes, id)];
  if (!was || !is) return [];
  const { params: old, position: _, order: __, ui: ___, ...rest } = was;
  const { params: now, position: ____, order: _____, ui: ______, ...others } = is;
  return [...fields(name, rest, others), ...fields(name, old, now)];
}

function fields(
  of: string,
  before: Readonly<Record<string, JsonValue>>,
  after: Readonly<Record<string, JsonValue>>,
): string[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter((name) => !equal(own(before, name), own(after, name)))
    .map((name) => `${of === '' ? '' : `${of}: `}${name} ${short(own(before, name))} → ${short(own(after, name))}`);
}

/** The texts about parameters, of those that both have. */
function helps(before: Doc, after: Doc): string[] {
  return Object.entries(before.parameters).flatMap(([name, { help }]) => {
    const now = own(after.parameters, name);
    return now ? fields(name, { help }, { help: now.help }) : [];
  });
}

function values(doc: Doc): Record<string, JsonValue> {
  return Object.fromEntries(Object.entries(doc.parameters).map(([name, { value }]) => [name, value]));
}

function numbered(found: ReadonlyMap<string, Change>, wanted: Change, noun: string): string {
  const count = [...found.values()].filter((change) => change === wanted).length;
  return count === 0 ? '' : `${count} ${noun}${count === 1 ? '' : 's'} ${wanted}`;
}

function short(value: JsonValue | undefined): string {
  const text = value === undefined ? 'default' : typeof value === 'string' ? value || 'empty' : JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** Whether two values say the same, in whatever order their keys are. */
export function equal(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
  );
}
