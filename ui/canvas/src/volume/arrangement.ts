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
    return { planes: packed([[{ axis: ONE[layout], column: 0, row: 0 }]], size, all), rendering: null };
  if (layout === 'planes') return { planes: packed(WAYS, size, all), rendering: null };
  const inLine = placed(CORNER, size, all);
  const corner = freeCorner(inLine, all);
  if (corner) return { planes: inLine.planes, rendering: corner };
  const wide = width > height * 1.1;
  const part = wide ? { ...all, width: width * 0.55 } : { ...all, height: height * 0.55 };
  const rest = wide
    ? { left: part.width, top: 0, width: width - part.width, height }
    : { left: 0, top: part.height, width, height: height - part.height };
  return { planes: packed(WAYS, size, part), rendering: rest };
}

/** Where a plane stands in a grid. Those of a column have their left sides in line, those of a row their tops. */
interface Cell {
  readonly axis: Axis;
  readonly column: number;
  readonly row: number;
}

type Way = readonly Cell[];

/**
 * As medical viewers have them, and thumbnails: what lies below or beside a place in one plane is the same place in the
 * next, along X from the plane across Y down to that across Z, and along Z from there to that across X.
 */
const CORNER: Way = [
  { axis: 1, column: 0, row: 0 },
  { axis: 0, column: 1, row: 0 },
  { axis: 2, column: 0, row: 1 },
];
const WAYS: readonly Way[] = [
  CORNER,
  [
    { axis: 1, column: 0, row: 0 },
    { axis: 0, column: 1, row: 0 },
    { axis: 2, column: 2, row: 0 },
  ],
  [
    { axis: 1, column: 0, row: 0 },
    { axis: 2, column: 0, row: 1 },
    { axis: 0, column: 0, row: 2 },
  ],
];
/** So much larger another way must show the planes to be taken, where they do not all lie in line. */
const WORTH_IT = 1.4;
/** The rendering takes the free corner where that has this share of the stage at least, along both sides. */
const ROOMY = 0.35;

interface Packed {
  readonly scale: number;
  readonly planes: Arrangement['planes'];
}

/** The planes in the middle of a box: in line, or in that of the ways in which they get far larger. */
function packed(ways: readonly Way[], size: Triple, box: Box): Arrangement['planes'] {
  let best: Packed = { scale: 0, planes: [] };
  for (const way of ways) {
    const found = placed(way, size, box);
    const scale = way === CORNER ? WORTH_IT * found.scale : found.scale;
    if (scale > best.scale) best = { scale, planes: found.planes };
  }
  return best.planes;
}

function placed(way: Way, size: Triple, box: Box): Packed {
  const sides = ([0, 1, 2] as const).map((axis) => sidesOf(axis, size));
  const longest = Math.max(...sides.flat());
  const of = (axis: Axis): readonly [number, number] => {
    const [width, height] = sides[axis] ?? [1, 1];
    const factor = Math.max(1, (LEAST * longest) / Math.max(width, height));
    return [width * factor, height * factor];
  };
  const widths: number[] = [];
  const heights: number[] = [];
  for (const { axis, column, row } of way) {
    const [width, height] = of(axis);
    widths[column] = Math.max(widths[column] ?? 0, width);
    heights[row] = Math.max(heights[row] ?? 0, height);
  }
  const scale = Math.min(
    (box.width - GAP * (widths.length + 1)) / sum(widths),
    (box.height - GAP * (heights.length + 1) - FOOT * heights.length) / sum(heights),
  );
  const wide = sum(widths) * scale + GAP * (widths.length - 1);
  const tall = sum(heights) * scale + FOOT * heights.length + GAP * (heights.length - 1);
  const [left, top] = [box.left + (box.width - wide) / 2, box.top + (box.height - tall) / 2];
  const planes = way.map(({ axis, column, row }) => {
    const [width, height] = of(axis);
    return {
      axis,
      box: {
        left: left + sum(widths.slice(0, column)) * scale + GAP * column,
        top: top + sum(heights.slice(0, row)) * scale + (FOOT + GAP) * row,
        width: width * scale,
        height: height * scale,
      },
    };
  });
  return { scale, planes };
}

/** The corner of the stage that the planes in line leave free; null where it is too small for the rendering. */
function freeCorner({ planes }: Packed, { width, height }: Box): Box | null {
  const beside = planes.find(({ axis }) => axis === 0)?.box;
  const below = planes.find(({ axis }) => axis === 2)?.box;
  if (!beside || !below) return null;
  const left = Math.max(beside.left, below.left + below.width + GAP);
  const free = { left, top: below.top, width: width - GAP - left, height: height - GAP - below.top };
  return free.width >= ROOMY * width && free.height >= ROOMY * height ? free : null;
}

function sidesOf(axis: Axis, size: Triple): readonly [number, number] {
  const [right, up] = axesOf(axis);
  return [size[right], size[up]];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
