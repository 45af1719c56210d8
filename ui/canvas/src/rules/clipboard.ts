/** Copy and paste as text, so that nodes travel between pipelines, tabs and chat messages. */

import {
  POLICY_FIELDS,
  type Doc,
  type DocAnnotation,
  type DocEdge,
  type DocNode,
  type DocPosition,
  type JsonValue,
  type Op,
} from '../protocol';
import { readBy } from './checks';
import { COLOURS, LEAST_SIZE } from '../document/annotations';
import { edgeKey, end, nextOrder, written } from '../document/ends';
import { freeId, isId, marked } from '../document/ids';
import { orderedNodes, set } from '../document/ops';

const FORMAT = 'voxelflow-nodes';

/** Lists in lists, as ui/build/documents.py counts them in a node: Python takes none that is nested deeper. */
const DEEPEST = 100;

interface Clip {
  format: typeof FORMAT;
  nodes: { id: string; node: Omit<DocNode, 'order'> }[];
  edges: Omit<DocEdge, 'order'>[];
  /** Missing in what an earlier version copied. */
  annotations: { id: string; item: Omit<DocAnnotation, 'order'> }[];
}

/** The chosen nodes with the wires among them, and the chosen frames and notes. */
export function copyText(doc: Doc, chosen: readonly string[], drawn: readonly string[] = []): string {
  const wanted = new Set(chosen);
  const nodes = orderedNodes(doc)
    .filter(([id]) => wanted.has(id))
    .map(([id, { order: _, ...node }]) => ({ id, node }));
  const edges = Object.values(doc.edges)
    .filter((e) => wanted.has(end(e.source).node) && wanted.has(end(e.target).node))
    .sort((a, b) => a.order - b.order)
    .map(({ source, target }) => ({ source, target }));
  const annotations = Object.entries(doc.annotations)
    .filter(([id]) => drawn.includes(id))
    .sort(([, a], [, b]) => a.order - b.order)
    .map(([id, { order: _, ...item }]) => ({ id, item }));
  return JSON.stringify({ format: FORMAT, nodes, edges, annotations } satisfies Clip, null, 2);
}

export interface Pasted {
  /** Of the new nodes. */
  readonly ids: string[];
  /** Ids of the new frames and notes. */
  readonly annotations: string[];
  readonly ops: Op[];
}

/**
 * The ops that paste `text` with its top left corner at `at`, and the ids of what is new; null: not ours.
 * `mark` is the tab's while others edit too.
 */
export function pasteText(doc: Doc, text: string, at: DocPosition, mark = ''): Pasted | null {
  const clip = read(text);
  if (!clip || clip.nodes.length + clip.annotations.length === 0) return null;
  const places = [...clip.nodes.map(({ node }) => node), ...clip.annotations.map(({ item }) => item)];
  const left = Math.min(...places.map(({ position }) => position.x));
  const top = Math.min(...places.map(({ position }) => position.y));
  const pasted = ({ x, y }: DocPosition) => ({ x: Math.round(x - left + at.x), y: Math.round(y - top + at.y) });
  const taken = new Set(Object.keys(doc.nodes));
  const renamed = new Map<string, string>();
  let order = nextOrder(doc.nodes);
  const ops: Op[] = [];
  for (const { id, node } of clip.nodes) {
    const fresh = freeId(marked(id, mark), taken);
    taken.add(fresh);
    renamed.set(id, fresh);
    ops.push(set(['nodes', fresh], { ...node, position: pasted(node.position), order }));
    order += 1;
  }
  let edgeOrder = nextOrder(doc.edges);
  for (const { source, target } of clip.edges) {
    const from = renamed.get(end(source).node);
    const to = renamed.get(end(target).node);
    if (from === undefined || to === undefined) continue;
    const edge = { source: written(from, end(source).port), target: written(to, end(target).port), order: edgeOrder };
    ops.push(set(['edges', edgeKey(edge.source, edge.target)], edge));
    edgeOrder += 1;
  }
  const drawn = new Set(Object.keys(doc.annotations));
  const annotations: string[] = [];
  let place = nextOrder(doc.annotations);
  for (const { id, item } of clip.annotations) {
    const fresh = freeId(marked(id, mark), drawn);
    drawn.add(fresh);
    annotations.push(fresh);
    ops.push(set(['annotations', fresh], { ...item, position: pasted(item.position), order: place }));
    place += 1;
  }
  return { ids: [...renamed.values()], annotations, ops };
}

/** Text from anywhere: every field is looked at before it is believed. */
function read(text: string): Clip | null {
  let raw: unknown;
  try {
    raw = JSON.parse(text, finite);
  } catch {
    return null;
  }
  if (!isRecord(raw) || raw.format !== FORMAT || !Array.isArray(raw.nodes) || !Array.isArray(raw.edges)) return null;
  const nodes: Clip['nodes'] = [];
  for (const item of raw.nodes) {
    const found = isRecord(item) && isRecord(item.node) ? readNode(item.node) : null;
    if (!isRecord(item) || typeof item.id !== 'string' || !isId(item.id) || !found) return null;
    nodes.push({ id: item.id, node: found });
  }
  if (new Set(nodes.map(({ id }) => id)).size < nodes.length) return null;
  const edges: Clip['edges'] = [];
  for (const item of raw.edges) {
    if (!isRecord(item) || typeof item.source !== 'string' || typeof item.target !== 'string') return null;
    edges.push({ source: item.source, target: item.target });
  }
  const annotations: Clip['annotations'] = [];
  for (const item of Array.isArray(raw.annotations) ? raw.annotations : []) {
    const found = isRecord(item) && isRecord(item.item) ? readAnnotation(item.item) : null;
    if (!isRecord(item) || typeof item.id !== 'string' || !isId(item.id) || !found) return null;
    annotations.push({ id: item.id, item: found });
  }
  return { format: FORMAT, nodes, edges, annotations };
}

/** A number that is too large for the browser would be null to Python, which nobody has copied. */
function finite(_key: string, value: unknown): unknown {
  if (value === Infinity || value === -Infinity) throw new RangeError('A number is too large.');
  return value;
}

function readAnnotation(raw: Record<string, JsonValue>): Omit<DocAnnotation, 'order'> | null {
  const { kind, text, position, width, height } = raw;
  if ((kind !== 'frame' && kind !== 'note') || !isRecord(position)) return null;
  const { x, y } = position;
  if (![x, y, width, height].every(Number.isFinite)) return null;
  return {
    kind,
    text: typeof text === 'string' ? text : '',
    colour: COLOURS.find((colour) => colour === raw.colour) ?? 'grey',
    position: { x: Number(x), y: Number(y) },
    width: Math.max(LEAST_SIZE.width, Number(width)),
    height: Math.max(LEAST_SIZE.height, Number(height)),
  };
}

function readNode(raw: Record<string, JsonValue>): Omit<DocNode, 'order'> | null {
  const { type, position, params, ui } = raw;
  if (typeof type !== 'string' || !isRecord(position) || !isRecord(params)) return null;
  const { x, y } = position;
  if (typeof x !== 'number' || typeof y !== 'number' || isDeeper(raw, DEEPEST)) return null;
  return {
    type,
    version: typeof raw.version === 'number' ? raw.version : null,
    title: typeof raw.title === 'string' ? raw.title : '',
    params,
    position: { x, y },
    retries: isRetries(raw.retries) ? raw.retries : 0,
    mode: raw.mode === 'disabled' || raw.mode === 'bypass' ? raw.mode : 'run',
    timeout_s: typeof raw.timeout_s === 'number' && raw.timeout_s > 0 ? raw.timeout_s : null,
    ui: isRecord(ui) ? ui : {},
  };
}

/** Whether something in `value` is nested in more than `most` lists and objects. Without recursion: it may be very deep. */
function isDeeper(value: JsonValue, most: number): boolean {
  let level: JsonValue[] = [value];
  for (let depth = 0; depth <= most && level.length > 0; depth += 1)
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []));
  return level.length > 0;
}

/** Whether a value out of `JSON.parse` is an object. */
function isRecord(value: unknown): value is Record<string, JsonValue> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isRetries(value: unknown): value is number {
  return typeof value === 'number' && 'value' in readBy(POLICY_FIELDS.retries.rules, value);
}
