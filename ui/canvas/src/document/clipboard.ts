/** Copy and paste as text, so that nodes travel between pipelines, tabs and chat messages. */

import type { Doc, DocEdge, DocNode, DocPosition, JsonValue, Op } from '../protocol';
import { edgeKey, end, nextOrder, written } from './ends';
import { freeId, isId, marked } from './ids';
import { orderedNodes, set } from './ops';

const FORMAT = 'voxelflow-nodes';

interface Clip {
  format: typeof FORMAT;
  nodes: { id: string; node: Omit<DocNode, 'order'> }[];
  edges: Omit<DocEdge, 'order'>[];
}

/** The chosen nodes and the wires among them. */
export function copyText(doc: Doc, chosen: readonly string[]): string {
  const wanted = new Set(chosen);
  const nodes = orderedNodes(doc)
    .filter(([id]) => wanted.has(id))
    .map(([id, { order: _, ...node }]) => ({ id, node }));
  const edges = Object.values(doc.edges)
    .filter((e) => wanted.has(end(e.source).node) && wanted.has(end(e.target).node))
    .sort((a, b) => a.order - b.order)
    .map(({ source, target }) => ({ source, target }));
  return JSON.stringify({ format: FORMAT, nodes, edges } satisfies Clip, null, 2);
}

/**
 * The ops that paste `text` with its top left corner at `at`, and the ids of the new nodes; null: not ours.
 * `mark` is the tab's while others edit too.
 */
export function pasteText(doc: Doc, text: string, at: DocPosition, mark = ''): { ids: string[]; ops: Op[] } | null {
  const clip = read(text);
  if (!clip || clip.nodes.length === 0) return null;
  const left = Math.min(...clip.nodes.map(({ node }) => node.position.x));
  const top = Math.min(...clip.nodes.map(({ node }) => node.position.y));
  const taken = new Set(Object.keys(doc.nodes));
  const renamed = new Map<string, string>();
  let order = nextOrder(doc.nodes);
  const ops: Op[] = [];
  for (const { id, node } of clip.nodes) {
    const fresh = freeId(marked(id, mark), taken);
    taken.add(fresh);
    renamed.set(id, fresh);
    const position = { x: Math.round(node.position.x - left + at.x), y: Math.round(node.position.y - top + at.y) };
    ops.push(set(['nodes', fresh], { ...node, position, order }));
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
  return { ids: [...renamed.values()], ops };
}

/** Text from anywhere: every field is looked at before it is believed. */
function read(text: string): Clip | null {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
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
  return { format: FORMAT, nodes, edges };
}

function readNode(raw: Record<string, JsonValue>): Omit<DocNode, 'order'> | null {
  const { type, position, params, ui } = raw;
  if (typeof type !== 'string' || !isRecord(position) || !isRecord(params)) return null;
  const { x, y } = position;
  if (typeof x !== 'number' || typeof y !== 'number') return null;
  return {
    type,
    version: typeof raw.version === 'number' ? raw.version : null,
    title: typeof raw.title === 'string' ? raw.title : '',
    params,
    position: { x, y },
    retries: isRetries(raw.retries) ? raw.retries : 0,
    timeout_s: typeof raw.timeout_s === 'number' && raw.timeout_s > 0 ? raw.timeout_s : null,
    ui: isRecord(ui) ? ui : {},
  };
}

/** Whether a value out of `JSON.parse` is an object. */
function isRecord(value: unknown): value is Record<string, JsonValue> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isRetries(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 100;
}
