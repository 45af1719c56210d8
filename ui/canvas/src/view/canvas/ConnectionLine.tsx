/** The wire in the hand: its line, and the reason beside the pointer where it can't end. */

import { getBezierPath, useConnection, type ConnectionLineComponentProps } from '@xyflow/react';

import { written } from '../../document/ends';
import { landing } from '../../rules/fits';
import { useCanvas } from '../../state/hooks';
import { kindStyle } from '../parts/colours';
import type { Card } from './items';
import { useStage } from './stage';

export function ConnectionLine(props: ConnectionLineComponentProps<Card>) {
  const { fromX, fromY, fromPosition, toX, toY, toPosition, connectionStatus } = props;
  const kind = useStage((s) => s.connecting?.kind ?? '');
  const [path] = getBezierPath({
    sourceX: fromX,
    sourceY: fromY,
    sourcePosition: fromPosition,
    targetX: toX,
    targetY: toY,
    targetPosition: toPosition,
  });
  return <path className="wire-drawn" d={path} style={kindStyle(kind)} data-status={connectionStatus ?? undefined} />;
}

/** Says why the wire can't end where the pointer is. */
export function ConnectionReason() {
  const connecting = useStage((s) => s.connecting);
  const over = useStage((s) => s.over);
  const port = useConnection((c) =>
    c.inProgress && c.isValid === false && c.toHandle ? written(c.toHandle.nodeId, c.toHandle.id ?? '') : null,
  );
  const side = useConnection((c) => (c.inProgress ? c.toHandle?.type : undefined));
  const x = useConnection((c) => (c.inProgress && (port !== null || over !== null) ? c.pointer.x : 0));
  const y = useConnection((c) => (c.inProgress && (port !== null || over !== null) ? c.pointer.y : 0));
  const ofCard = useCanvas((s) => {
    if (!connecting || over === null || over === connecting.from.node) return '';
    const found = landing(s.doc, s.types, connecting.from, connecting.side, over);
    return 'why' in found ? found.why : '';
  });
  if (connecting?.by !== 'pointer') return null;
  const sameSide = (side === 'source') === (connecting.side === 'output');
  const ofPort =
    port === null
      ? ''
      : sameSide
        ? `A wire goes from an output to an input.`
        : (connecting.reasons.get(port) ?? 'This port is not known.');
  const why = ofPort || ofCard;
  if (why === '') return null;
  return (
    <div className="connection-reason" role="status" style={{ transform: `translate(${x + 14}px, ${y + 14}px)` }}>
      {why}
    </div>
  );
}
