/** Where the planes stand, and how large: of one scale, so that a length is the same in all, and as large as there is room. */

import { axesOf } from './planes';
import type { Axis, Triple } from './volume';

/** What is shown: the three planes, with the rendering beside them or not, one plane, or the rendering alone. */
export type Layout = 'planes' | 'all' | 'rendering' | 'x' | 'y' | 'z';

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

export interface Arrangement {
  /** The pictures of the planes, without what stands below each. */
  readonly planes: readonly { readonly axis: Axis; readonly box: Box }[];
  readonly rendering: Box | null;
}

const GAP = 12;
/** Below each plane: its slider. */
export const FOOT = 30;
/** A plane is enlarged on its own to this share of the longest side of all, where one axis is far longer than others. */
const LEAST = 0.3;

const ONE: Readonly<Record<'x' | 'y' | 'z', Axis>> = { x: 0, y: 1, z: 2 };

export function arrange(layout: Layout, size: Triple, width: number, height: number): Arrangement {
  const all = { left: 0, top: 0, width, height };
  if (layout === 'rendering') return { planes: [], rendering: all };
  if (layout === 'x' || layout === 'y' || layout === 'z')
    return { planes: packed([[[ONE[layout]]]], size, all), rendering: null };
  if (layout === 'planes') return { planes: packed(WAYS, size, all), rendering: null };
  const wide = width > height * 1.1;
  const part = wide ? { ...all, width: width * 0.55 } : { ...all, height: height * 0.55 };
  const rest = wide
    ? { left: part.width, top: 0, width: width - part.width, height }
    : { left: 0, top: part.height, width, height: height - part.height };
  return { planes: packed(WAYS, size, part), rendering: rest };
}

/** Columns of planes, each from top to bottom. */
type Way = readonly (readonly Axis[])[];

const WAYS: readonly Way[] = [[[2], [1], [0]], [[2], [1, 0]], [[2, 1], [0]], [[2, 1, 0]]];

/** The planes in that of the ways in which they get largest, in the middle of a box. */
function packed(ways: readonly Way[], size: Triple, box: Box): Arrangement['planes'] {
  const sides = new Map(([0, 1, 2] as const).map((axis) => [axis, sidesOf(axis, size)]));
  const longest = Math.max(...[...sides.values()].flat());
  const of = (axis: Axis): readonly [number, number] => {
    const [width, height] = sides.get(axis) ?? [1, 1];
    const factor = Math.max(1, (LEAST * longest) / Math.max(width, height));
    return [width * factor, height * factor];
  };
  let best: { scale: number; planes: Arrangement['planes'] } = { scale: 0, planes: [] };
  for (const columns of ways) {
    const widths = columns.map((column) => Math.max(...column.map((axis) => of(axis)[0])));
    const heights = columns.map((column) => sum(column.map((axis) => of(axis)[1])));
    const scale = Math.min(
      (box.width - GAP * (columns.length + 1)) / sum(widths),
      ...columns.map(
        (column, n) => (box.height - GAP * (column.length + 1) - FOOT * column.length) / (heights[n] ?? 1),
      ),
    );
    if (scale <= best.scale) continue;
    const planes: { axis: Axis; box: Box }[] = [];
    let left = box.left + (box.width - sum(widths) * scale - GAP * (columns.length - 1)) / 2;
    columns.forEach((column, n) => {
      const tall = (heights[n] ?? 0) * scale + FOOT * column.length + GAP * (column.length - 1);
      let top = box.top + (box.height - tall) / 2;
      for (const axis of column) {
        const [width, height] = of(axis);
        const indent = (((widths[n] ?? 0) - width) * scale) / 2;
        planes.push({ axis, box: { left: left + indent, top, width: width * scale, height: height * scale } });
        top += height * scale + FOOT + GAP;
      }
      left += (widths[n] ?? 0) * scale + GAP;
    });
    best = { scale, planes };
  }
  return best.planes;
}

function sidesOf(axis: Axis, size: Triple): readonly [number, number] {
  const [right, up] = axesOf(axis);
  return [size[right], size[up]];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
