/** Auto-layout: data flows left to right, wires cross as little as may be. */

import dagre from '@dagrejs/dagre';

import type { Doc, DocPosition, Op } from '../protocol';
import { around, framed, placeAnnotation } from './annotations';
import { moveNodes } from './edits';
import { end } from './ends';
import { apply, orderedNodes } from './ops';
import { USUAL_SIZE, type Size } from './sizes';

const GAP_BETWEEN_COLUMNS = 72;
const GAP_BETWEEN_ROWS = 36;
/** Wires run back to the next line through this. */
const GAP_BETWEEN_LINES = 96;

/**
 * New positions of all nodes, or of the `chosen` ones, whose top left corner then stays where it is.
 *
 * With a `window` the drawing gets about its shape: a chain longer than it is broken into lines, as text is, and parts
 * that no wire joins stand beside each other. A pipeline with frames is drawn in one piece: a frame holds together.
 */
export function arranged(
  doc: Doc,
  sizes: ReadonlyMap<string, Size>,
  chosen?: ReadonlySet<string>,
  window?: Size,
): Map<string, DocPosition> {
  const frames = chosen ? NO_FRAMES : framesOf(doc, sizes);
  const ids = orderedNodes(doc)
    .map(([id]) => id)
    .filter((id) => !chosen || chosen.size === 0 || chosen.has(id));
  const corners =
    window === undefined || frames.held.size > 0
      ? laidOut(doc, ids, sizes, frames)
      : inShelves(
          joined(doc, ids).map((part) => inLines(laidOut(doc, part, sizes, frames), sizes, window)),
          sizes,
          window,
        );
  return shifted(corners, topLeft(ids.map((id) => doc.nodes[id]?.position)));
}

function laidOut(
  doc: Doc,
  ids: readonly string[],
  sizes: ReadonlyMap<string, Size>,
  { held, within }: Frames,
): Map<string, DocPosition> {
  const graph = new dagre.graphlib.Graph({ compound: held.size > 0 });
  graph.setGraph({ rankdir: 'LR', ranksep: GAP_BETWEEN_COLUMNS, nodesep: GAP_BETWEEN_ROWS });
  graph.setDefaultEdgeLabel(() => ({}));
  // dagre keeps names in plain objects, where a node called `constructor` would be found before it is put.
  const names = new Map(ids.map((id, index) => [id, `n${index}`]));
  for (const [id, name] of names) graph.setNode(name, { ...(sizes.get(id) ?? USUAL_SIZE) });
  for (const edge of Object.values(doc.edges)) {
    const source = names.get(end(edge.source).node);
    const target = names.get(end(edge.target).node);
    if (source !== undefined && target !== undefined) graph.setEdge(source, target);
  }
  // The library lays a frame's nodes out beside each other, and other nodes outside of them.
  const drawn = new Map(occupied({ held, within }).map((frame, index) => [frame, `f${index}`]));
  for (const name of drawn.values()) graph.setNode(name, {});
  const put = (name: string | undefined, frame: string | undefined) => {
    const parent = frame === undefined ? undefined : drawn.get(frame);
    if (name !== undefined && parent !== undefined) graph.setParent(name, parent);
  };
  for (const [id, frame] of held) put(names.get(id), frame);
  for (const [frame, name] of drawn) put(name, within.get(frame));
  dagre.layout(graph);
  const corners = new Map<string, DocPosition>();
  for (const [id, name] of names) {
    const { x, y, width, height } = graph.node(name) as { x: number; y: number; width: number; height: number };
    corners.set(id, { x: x - width / 2, y: y - height / 2 });
  }
  return corners;
}

/** The nodes in parts that no wire joins, in the order of the file. */
function joined(doc: Doc, ids: readonly string[]): string[][] {
  const next = new Map(ids.map((id): [string, string[]] => [id, []]));
  for (const edge of Object.values(doc.edges)) {
    const [a, b] = [end(edge.source).node, end(edge.target).node];
    if (!next.has(a) || !next.has(b)) continue;
    next.get(a)?.push(b);
    next.get(b)?.push(a);
  }
  const seen = new Set<string>();
  return ids.flatMap((id) => {
    if (seen.has(id)) return [];
    const part = new Set([id]);
    for (const node of part) for (const other of next.get(node) ?? []) part.add(other);
    for (const node of part) seen.add(node);
    return [ids.filter((node) => part.has(node))];
  });
}

interface Extent {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

function extentOf(corners: ReadonlyMap<string, DocPosition>, sizes: ReadonlyMap<string, Size>): Extent {
  const all = [...corners].map(([id, at]) => ({ ...at, ...(sizes.get(id) ?? USUAL_SIZE) }));
  const left = Math.min(...all.map(({ x }) => x));
  const top = Math.min(...all.map(({ y }) => y));
  return {
    left,
    top,
    width: Math.max(...all.map(({ x, width }) => x + width)) - left,
    height: Math.max(...all.map(({ y, height }) => y + height)) - top,
  };
}

/** Parts beside and below each other, as books on shelves, so that all of it has about the window's shape. */
function inShelves(
  parts: readonly ReadonlyMap<string, DocPosition>[],
  sizes: ReadonlyMap<string, Size>,
  window: Size,
): Map<string, DocPosition> {
  const out = new Map<string, DocPosition>();
  const blocks = parts.map((corners) => ({ corners, ...extentOf(corners, sizes) }));
  const area = blocks.reduce((sum, b) => sum + (b.width + GAP_BETWEEN_COLUMNS) * (b.height + GAP_BETWEEN_ROWS), 0);
  const widest = Math.max(window.width, Math.sqrt(area * shapeOf(window)), ...blocks.map(({ width }) => width));
  let [x, y, tallest] = [0, 0, 0];
  for (const { corners, left, top, width, height } of blocks) {
    if (x > 0 && x + width > widest) [x, y, tallest] = [0, y + tallest + GAP_BETWEEN_ROWS, 0];
    for (const [id, at] of corners) out.set(id, { x: at.x - left + x, y: at.y - top + y });
    x += width + GAP_BETWEEN_COLUMNS;
    tallest = Math.max(tallest, height);
  }
  return out;
}

/** The frames that held nodes before `places` were taken, as large as is needed to hold them and each other still. */
export function framesAround(
  doc: Doc,
  places: ReadonlyMap<string, DocPosition>,
  sizes: ReadonlyMap<string, Size>,
): Op[] {
  const frames = framesOf(doc, sizes);
  const ops: Op[] = [];
  let moved = apply(doc, moveNodes(doc, places));
  const touched = new Set([...frames.held].filter(([id]) => places.has(id)).map(([, frame]) => frame));
  const drawn = occupied(frames);
  // The inner ones first: those around them take their new places.
  for (const frame of drawn) {
    const nodes = [...frames.held].filter(([, its]) => its === frame).map(([id]) => id);
    const annotations = drawn.filter((inner) => frames.within.get(inner) === frame);
    if (!touched.has(frame) && !annotations.some((inner) => touched.has(inner))) continue;
    touched.add(frame);
    const box = around(moved, { nodes, annotations }, sizes);
    const placed = box ? placeAnnotation(moved, frame, box) : [];
    ops.push(...placed);
    moved = apply(moved, placed);
  }
  return ops;
}

interface Frames {
  /** By node: the smallest frame that holds it. */
  readonly held: ReadonlyMap<string, string>;
  /** By frame: the smallest other one that holds it. */
  readonly within: ReadonlyMap<string, string>;
}

const NO_FRAMES: Frames = { held: new Map(), within: new Map() };

function framesOf(doc: Doc, sizes: ReadonlyMap<string, Size>): Frames {
  const frames = Object.entries(doc.annotations)
    .filter(([, { kind }]) => kind === 'frame')
    .sort(([, a], [, b]) => b.width * b.height - a.width * a.height);
  const held = new Map<string, string>();
  const within = new Map<string, string>();
  for (const [frame] of frames) {
    const { nodes, annotations } = framed(doc, frame, sizes);
    for (const node of nodes) held.set(node, frame);
    for (const inner of annotations) if (doc.annotations[inner]?.kind === 'frame') within.set(inner, frame);
  }
  return { held, within };
}

/** The frames that hold nodes, themselves or by other frames: each before those that it lies in. */
function occupied({ held, within }: Frames): string[] {
  const chains = [...new Set(held.values())].map((frame) => {
    const chain = [frame];
    for (let outer = within.get(frame); outer !== undefined; outer = within.get(outer)) chain.push(outer);
    return chain;
  });
  return [...new Set(chains.flat().reverse())].reverse();
}

/** Never 0: a window that is not shown has none. */
function shapeOf({ width, height }: Size): number {
  return Math.max(1, width) / Math.max(1, height);
}

/** One part's columns, broken into lines below each other where it is wider than the window. */
function inLines(
  corners: Map<string, DocPosition>,
  sizes: ReadonlyMap<string, Size>,
  window: Size,
): Map<string, DocPosition> {
  const columns = new Map<number, string[]>();
  const right = (id: string) => (corners.get(id)?.x ?? 0) + (sizes.get(id) ?? USUAL_SIZE).width;
  // Nodes of one rank have one middle.
  for (const [id, { x }] of corners) {
    const middle = Math.round(x + (sizes.get(id) ?? USUAL_SIZE).width / 2);
    columns.set(middle, [...(columns.get(middle) ?? []), id]);
  }
  const ordered = [...columns].sort(([a], [b]) => a - b).map(([, ids]) => ids);
  const { left, top, width, height } = extentOf(corners, sizes);
  const line = height + GAP_BETWEEN_LINES;
  const lines = Math.min(ordered.length, Math.round(Math.sqrt(width / line / shapeOf(window))));
  if (lines < 2 || width <= window.width) return corners;
  const out = new Map<string, DocPosition>();
  let from = left;
  let below = 0;
  for (const column of ordered) {
    const start = Math.min(...column.map((id) => corners.get(id)?.x ?? 0));
    if (Math.max(...column.map(right)) - from > (width / lines) * 1.05 && start > from) {
      below += line;
      from = start;
    }
    for (const id of column) {
      const at = corners.get(id);
      if (at) out.set(id, { x: at.x - from, y: at.y - top + below });
    }
  }
  return out;
}

/** Whether all of several nodes lie at one place: the document was written without positions. */
export function heaped(doc: Doc): boolean {
  const [first, ...rest] = Object.values(doc.nodes).map(({ position }) => position);
  return first !== undefined && rest.length > 0 && rest.every(({ x, y }) => x === first.x && y === first.y);
}

function topLeft(positions: readonly (DocPosition | undefined)[]): DocPosition {
  const known = positions.filter((p) => p !== undefined);
  if (known.length === 0) return { x: 0, y: 0 };
  return { x: Math.min(...known.map((p) => p.x)), y: Math.min(...known.map((p) => p.y)) };
}

function shifted(corners: Map<string, DocPosition>, to: DocPosition): Map<string, DocPosition> {
  const from = topLeft([...corners.values()]);
  return new Map(
    [...corners].map(([id, p]) => [id, { x: Math.round(p.x - from.x + to.x), y: Math.round(p.y - from.y + to.y) }]),
  );
}
