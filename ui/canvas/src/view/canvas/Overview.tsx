/** The small map of the whole pipeline, its nodes coloured by state. */

import { MiniMap, type MiniMapNodeProps } from '@xyflow/react';

import { own } from '../../document/own';
import { lightState } from '../../rules/lights';
import { useCanvas } from '../../state/hooks';

export function Overview() {
  const some = useCanvas((s) => Object.keys(s.doc.nodes).length > 1);
  if (!some) return null;
  return <MiniMap className="overview" ariaLabel="Overview" pannable zoomable nodeComponent={Dot} zoomStep={2} />;
}

function Dot({ id, x, y, width, height, selected }: MiniMapNodeProps) {
  const state = useCanvas((s) => lightState(own(s.status, id), own(s.outlook, id), s.run));
  return (
    <rect
      className="overview-node"
      x={x}
      y={y}
      width={width}
      height={height}
      rx={12}
      data-state={state}
      data-selected={selected}
    />
  );
}
