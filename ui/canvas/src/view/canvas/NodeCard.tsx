/** A node's card: what it is, its ports, and its state. Everything is read by id, so a change redraws one card. */

import type { NodeProps } from '@xyflow/react';
import { memo, useMemo } from 'react';

import { own } from '../../document/own';
import { readPorts, wiredPorts } from '../../document/wires';
import { shownPorts, typeOf } from '../../rules/ports';
import { useCanvas } from '../../state/hooks';
import { CardFoot } from './CardFoot';
import { CardHead } from './CardHead';
import { CardStrip } from './CardStrip';
import { takes } from './connecting';
import type { Card } from './items';
import { PortRows } from './PortRows';
import { useStage } from './stage';
import { useLight } from './use_light';

export const NodeCard = memo(function NodeCard({ id }: NodeProps<Card>) {
  const gone = useCanvas((s) => own(s.doc.nodes, id) === undefined);
  const type = useCanvas((s) => typeOf(s.doc, s.types, id));
  const waiting = useCanvas((s) => s.welcome === null);
  const wired = useCanvas((s) => wiredPorts(s.doc.edges, id));
  const ports = useMemo(() => shownPorts(type, readPorts(wired)), [type, wired]);
  const fits = useStage((s) => takes(s.connecting, id));
  const light = useLight(id);
  const mode = useCanvas((s) => own(s.doc.nodes, id)?.mode);
  // React Flow draws once more before it hears that a node is gone.
  if (gone) return null;
  return (
    <div
      className="node-card"
      data-testid={`node-${id}`}
      data-state={light.state}
      data-mode={mode}
      data-blocked={light.blocked || undefined}
      data-known={type !== undefined || waiting}
      data-fits={fits ?? undefined}
    >
      <CardHead id={id} type={type} />
      <PortRows id={id} ports={ports} />
      <CardFoot id={id} light={light} />
      <CardStrip id={id} />
    </div>
  );
});
