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

/**
 * The path, and where its middle is. A wire to a card further left, in another row, goes round the cards
 * at right angles: a curve would run behind them.
 */
export function wirePath(ends: Ends): [path: string, x: number, y: number] {
  const { sourceX, sourceY, targetX, targetY } = ends;
  const places = { sourceX, sourceY, targetX, targetY, sourcePosition: Position.Right, targetPosition: Position.Left };
  const goesBack = targetX < sourceX && Math.abs(targetY - sourceY) >= ROW;
  const [path, x, y] = goesBack ? getSmoothStepPath({ ...places, borderRadius: CORNER }) : getBezierPath(places);
  return [path, x, y];
}
