/** How a wire runs between two ports. */

import { getBezierPath, getSmoothStepPath, Position } from '@xyflow/react';

export interface Ends {
  readonly sourceX: number;
  readonly sourceY: number;
  readonly targetX: number;
  readonly targetY: number;
}

const CORNER = 14;
/** So far apart, two cards have space for a wire between them. */
const ROW = 130;
/** A wire between two rows runs so far above the lower one: the cards above it grow when they get pictures. */
const ABOVE = 18;

/**
 * The path, and where its middle is. A wire to a card further left, in another row, goes round the cards
 * at right angles: a curve would run behind them. `top` is the upper edge of the lower one of its two cards, where that
 * is known.
 */
export function wirePath(ends: Ends, top?: number): [path: string, x: number, y: number] {
  const { sourceX, sourceY, targetX, targetY } = ends;
  const places = { sourceX, sourceY, targetX, targetY, sourcePosition: Position.Right, targetPosition: Position.Left };
  const goesBack = targetX < sourceX && Math.abs(targetY - sourceY) >= ROW;
  const between = top !== undefined && top - ABOVE > Math.min(sourceY, targetY) ? { centerY: top - ABOVE } : {};
  const [path, x, y] = goesBack
    ? getSmoothStepPath({ ...places, ...between, borderRadius: CORNER })
    : getBezierPath(places);
  return [path, x, y];
}
