/** The small map of the whole pipeline, its nodes coloured by state. Not there while all of it is in view: it lies on cards. */

import { MiniMap, useStore, type MiniMapNodeProps, type ReactFlowState } from '@xyflow/react';

import { own } from '../../document/own';
import { lightState } from '../../rules/lights';
import { outOf } from '../../rules/modes';
import { useCanvas } from '../../state/hooks';
import { annotationOf } from './items';

export function Overview() {
  const some = useCanvas((s) => Object.keys(s.doc.nodes).length + Object.keys(s.doc.annotations).length > 1);
  const needed = useStore(isSomethingOutside);
  if (!some) return null;
  return (
    <MiniMap
      className={needed ? 'overview' : 'overview overview-unneeded'}
      ariaLabel="Overview"
      pannable
      zoomable
      nodeComponent={Dot}
      zoomStep={2}
    />
  );
}

/** Whether a part of the pipeline is outside the window. */
function isSomethingOutside({ nodeLookup, transform: [left, top, zoom], width, height }: ReactFlowState): boolean {
  for (const { internals, measured } of nodeLookup.values()) {
    const x = internals.positionAbsolute.x * zoom + left;
    const y = internals.positionAbsolute.y * zoom + top;
    if (x < 0 || y < 0 || x + (measured.width ?? 0) * zoom > width || y + (measured.height ?? 0) * zoom > height) {
      return true;
    }
  }
  return false;
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
