/** The small map of the whole pipeline, its nodes coloured by state. */

import { MiniMap, type MiniMapNodeProps } from '@xyflow/react';

import { own } from '../../document/own';
import { lightState } from '../../rules/lights';
import { outOf } from '../../rules/modes';
import { useCanvas } from '../../state/hooks';
import { annotationOf } from './items';

export function Overview() {
  const some = useCanvas((s) => Object.keys(s.doc.nodes).length + Object.keys(s.doc.annotations).length > 1);
  if (!some) return null;
  return <MiniMap className="overview" ariaLabel="Overview" pannable zoomable nodeComponent={Dot} zoomStep={2} />;
}

function Dot({ id, x, y, width, height, selected }: MiniMapNodeProps) {
  const annotation = annotationOf(id);
  const kind = useCanvas((s) => (annotation === undefined ? undefined : own(s.doc.annotations, annotation)?.kind));
  const state = useCanvas((s) =>
    outOf(s.doc, s.problems, id) ? 'off' : lightState(own(s.status, id), own(s.forecasts, id), s.run),
  );
  if (annotation !== undefined) {
    return <rect className={`overview-${kind ?? 'note'}`} x={x} y={y} width={width} height={height} rx={12} />;
  }
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
