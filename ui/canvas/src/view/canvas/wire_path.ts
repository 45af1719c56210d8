/** How a wire runs between two ports. */

import { getBezierPath, getSmoothStepPath, Position } from '@xyflow/react';

import { goesBack, type Lane, type Point } from './wire_lanes';

export interface Ends {
  readonly sourceX: number;
  readonly sourceY: number;
  readonly targetX: number;
  readonly targetY: number;
}

const CORNER = 14;

/** The path, and where its middle is: a curve, or with a lane at right angles along it. */
export function wirePath(ends: Ends, lane: Lane | undefined): [path: string, x: number, y: number] {
  const { sourceX, sourceY, targetX, targetY } = ends;
  if (lane) {
    const [right, left] = [sourceX + lane.out, targetX - lane.into];
    const corners = [
      { x: right, y: sourceY },
      { x: right, y: lane.y },
      { x: left, y: lane.y },
      { x: left, y: targetY },
    ];
    return [rounded([{ x: sourceX, y: sourceY }, ...corners, { x: targetX, y: targetY }]), (right + left) / 2, lane.y];
  }
  const places = { sourceX, sourceY, targetX, targetY, sourcePosition: Position.Right, targetPosition: Position.Left };
  // Until the cards are measured there are no lanes.
  const [path, x, y] = goesBack({ from: { x: sourceX, y: sourceY }, to: { x: targetX, y: targetY } })
    ? getSmoothStepPath({ ...places, borderRadius: CORNER })
    : getBezierPath(places);
  return [path, x, y];
}

/** Lines from point to point, each level or upright, with round corners. */
function rounded(points: readonly Point[]): string {
  const parts = points.map((point, index) => {
    const [before, next] = [points[index - 1], points[index + 1]];
    if (!before) return `M${point.x} ${point.y}`;
    if (!next) return `L${point.x} ${point.y}`;
    const radius = Math.min(CORNER, distance(before, point) / 2, distance(point, next) / 2);
    const [start, end] = [toward(point, before, radius), toward(point, next, radius)];
    return `L${start.x} ${start.y}Q${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  return parts.join('');
}

function distance(a: Point, b: Point): number {
  return Math.abs(a.x - b.x) + Math.abs(a.y - b.y);
}

/** The point so far from one towards another. */
function toward(from: Point, to: Point, by: number): Point {
  return { x: from.x + Math.sign(to.x - from.x) * by, y: from.y + Math.sign(to.y - from.y) * by };
}
