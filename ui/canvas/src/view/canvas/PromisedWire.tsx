/** The wire that waits for the node which is being picked in the menu. */

import { getBezierPath, Position, useInternalNode, ViewportPortal } from '@xyflow/react';

import { kindsAt } from '../../rules/fits';
import { useCanvas } from '../../state/hooks';
import { kindStyle } from '../parts/colours';
import type { Card } from './items';
import { useStage, type AddMenu } from './stage';

export function PromisedWire() {
  const menu = useStage((s) => s.menu);
  if (menu?.kind !== 'add' || !menu.wire) return null;
  return <Line wire={menu.wire} at={menu.at} />;
}

function Line({ wire: { from, side }, at }: { wire: NonNullable<AddMenu['wire']>; at: AddMenu['at'] }) {
  const node = useInternalNode<Card>(from.node);
  const kind = useCanvas((s) => kindsAt(s.doc, s.types, from, side)[0] ?? '');
  const ports = node?.internals.handleBounds?.[side === 'output' ? 'source' : 'target'];
  const port = ports?.find(({ id }) => id === from.port);
  if (!node || !port) return null;
  const { x, y } = node.internals.positionAbsolute;
  const [path] = getBezierPath({
    sourceX: x + port.x + port.width / 2,
    sourceY: y + port.y + port.height / 2,
    sourcePosition: side === 'output' ? Position.Right : Position.Left,
    targetX: at.x,
    targetY: at.y,
    targetPosition: side === 'output' ? Position.Left : Position.Right,
  });
  return (
    <ViewportPortal>
      <svg className="promised-wire">
        <path className="wire-drawn" d={path} style={kindStyle(kind)} />
      </svg>
    </ViewportPortal>
  );
}
