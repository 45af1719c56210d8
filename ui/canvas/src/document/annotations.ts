/** Frames and notes: drawn for people, without any meaning to a run. Each function is one step of undo. */

import type { Doc, DocAnnotation, DocPosition, Op } from '../protocol';
import { USUAL_SIZE, type Size } from './sizes';
import { nextOrder } from './ends';
import { freeId, marked } from './ids';
import { set } from './ops';
import { own } from './own';

export type Colour = DocAnnotation['colour'];

export const COLOURS: readonly Colour[] = ['grey', 'blue', 'green', 'amber', 'red', 'violet'];
export const NOTE_SIZE: Size = { width: 220, height: 120 };
export const LEAST_SIZE: Size = { width: 80, height: 48 };
/** Of a frame's title above what it frames, and the space around that. */
export const FRAME_TITLE = 34;
const PADDING = 24;

export interface Box extends Size {
  readonly x: number;
  readonly y: number;
}

/** A new frame or note at a place; `mark` is the tab's while others edit too. */
export function addAnnotation(
  doc: Doc,
  kind: DocAnnotation['kind'],
  { x, y, width, height }: Box,
  mark = '',
): { id: string; ops: Op[] } {
  const id = freeId(marked(kind, mark), Object.keys(doc.annotations));
  const item: DocAnnotation = {
    kind,
    text: '',
    colour: kind === 'note' ? 'amber' : 'blue',
    position: { x: Math.round(x), y: Math.round(y) },
    width: Math.round(width),
    height: Math.round(height),
    order: nextOrder(doc.annotations),
  };
  return { id, ops: [set(['annotations', id], item)] };
}

export function setText(doc: Doc, id: string, text: string): Op[] {
  const item = own(doc.annotations, id);
  return item && item.text !== text ? [set(['annotations', id, 'text'], text)] : [];
}

export function setColour(doc: Doc, ids: readonly string[], colour: Colour): Op[] {
  return ids.flatMap((id) => {
    const item = own(doc.annotations, id);
    return item && item.colour !== colour ? [set(['annotations', id, 'colour'], colour)] : [];
  });
}

/** Another place or size. What stays the same makes no op, so that others may change the rest meanwhile. */
export function placeAnnotation(doc: Doc, id: string, box: Partial<Box>): Op[] {
  const item = own(doc.annotations, id);
  if (!item) return [];
  const x = Math.round(box.x ?? item.position.x);
  const y = Math.round(box.y ?? item.position.y);
  const width = Math.max(LEAST_SIZE.width, Math.round(box.width ?? item.width));
  const height = Math.max(LEAST_SIZE.height, Math.round(box.height ?? item.height));
  return [
    ...(x !== item.position.x || y !== item.position.y ? [set(['annotations', id, 'position'], { x, y })] : []),
    ...(width !== item.width ? [set(['annotations', id, 'width'], width)] : []),
    ...(height !== item.height ? [set(['annotations', id, 'height'], height)] : []),
  ];
}

export function moveAnnotations(doc: Doc, positions: ReadonlyMap<string, DocPosition>): Op[] {
  return [...positions].flatMap(([id, at]) => placeAnnotation(doc, id, at));
}

export interface Framed {
  readonly nodes: readonly string[];
  readonly annotations: readonly string[];
}

/** What a frame takes along: the nodes, notes and smaller frames whose middle lies in it. */
export function framed(doc: Doc, frame: string, sizes: ReadonlyMap<string, Size>): Framed {
  const item = own(doc.annotations, frame);
  if (item?.kind !== 'frame') return { nodes: [], annotations: [] };
  const outer = boxOf(item);
  return {
    nodes: Object.entries(doc.nodes)
      .filter(([id, { position }]) => holds(outer, { ...position, ...(sizes.get(id) ?? USUAL_SIZE) }))
      .map(([id]) => id),
    annotations: Object.entries(doc.annotations)
      .filter(([id, other]) => id !== frame && holds(outer, boxOf(other)) && area(other) < area(item))
      .map(([id]) => id),
  };
}

/** The frame that fits around nodes and annotations; null when there are none. */
export function around(doc: Doc, { nodes, annotations }: Framed, sizes: ReadonlyMap<string, Size>): Box | null {
  const boxes = [
    ...nodes.flatMap((id) => {
      const node = own(doc.nodes, id);
      return node ? [{ ...node.position, ...(sizes.get(id) ?? USUAL_SIZE) }] : [];
    }),
    ...annotations.flatMap((id) => {
      const item = own(doc.annotations, id);
      return item ? [boxOf(item)] : [];
    }),
  ];
  if (boxes.length === 0) return null;
  const x = Math.min(...boxes.map((b) => b.x)) - PADDING;
  const y = Math.min(...boxes.map((b) => b.y)) - PADDING - FRAME_TITLE;
  return {
    x,
    y,
    width: Math.max(...boxes.map((b) => b.x + b.width)) + PADDING - x,
    height: Math.max(...boxes.map((b) => b.y + b.height)) + PADDING - y,
  };
}

export function boxOf({ position, width, height }: DocAnnotation): Box {
  return { x: position.x, y: position.y, width, height };
}

function holds(outer: Box, inner: Box): boolean {
  const x = inner.x + inner.width / 2;
  const y = inner.y + inner.height / 2;
  return x > outer.x && x < outer.x + outer.width && y > outer.y && y < outer.y + outer.height;
}

function area({ width, height }: Size): number {
  return width * height;
}
