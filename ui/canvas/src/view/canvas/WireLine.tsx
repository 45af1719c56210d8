/** A wire between two cards: coloured by what flows in it, easy to hit, calm while data flows. */

import { EdgeLabelRenderer, useStore, type EdgeProps } from '@xyflow/react';
import { Plus, X } from 'lucide-react';
import { memo, type MouseEvent } from 'react';

import { own } from '../../document/own';
import { written } from '../../document/ends';
import { kindFrom } from '../../rules/ports';
import { isActive } from '../../rules/lights';
import { useCanvas } from '../../state/hooks';
import { usePicture } from '../../state/picture';
import { kindStyle } from '../parts/colours';
import { theEditor } from './editor';
import type { Wire } from './items';
import { madeAt } from './Port';
import { stage, useStage } from './stage';
import { useLane } from './use_lane';
import { holdWire, leaveWire } from './wire_hover';
import { wirePath } from './wire_path';

const HIT_WIDTH = 20;
/** The buttons keep their size when the view is small, up to a point. */
const LARGEST = 2;

export const WireLine = memo(function WireLine(props: EdgeProps<Wire>) {
  const { id, source, sourceHandleId, target, selected } = props;
  const from = written(source, sourceHandleId ?? '');
  const kind = useCanvas((s) => kindFrom(s.doc, s.types, from));
  const flows = useCanvas(
    (s) =>
      isActive(s.run) && (own(s.status, source)?.state === 'running' || own(s.status, target)?.state === 'running'),
  );
  const off = useCanvas(
    (s) => own(s.doc.nodes, source)?.mode === 'disabled' || own(s.doc.nodes, target)?.mode === 'disabled',
  );
  const open = useStage((s) => s.wire === id || (selected === true && s.connecting === null && s.target === null));
  const aimed = useStage((s) => s.target === id);
  const picture = usePicture();
  const change = picture?.changes ? own(picture.changes, id)?.change : undefined;
  const [path, x, y] = wirePath(props, useLane(id));
  return (
    <>
      <path className="wire-hit" d={path} strokeWidth={HIT_WIDTH} />
      <path
        className="wire react-flow__edge-path"
        d={path}
        style={kindStyle(kind)}
        data-off={off || undefined}
        data-open={open || undefined}
        data-change={change}
        data-aimed={aimed || undefined}
      />
      {flows && <path className="wire-flow" d={path} style={kindStyle(kind)} />}
      {open && picture === null && (
        <EdgeLabelRenderer>
          <WireTools id={id} from={from} x={x} y={y} />
        </EdgeLabelRenderer>
      )}
    </>
  );
});

function WireTools({ id, from, x, y }: { id: string; from: string; x: number; y: number }) {
  const zoom = useStore((s) => s.transform[2]);
  const text = useCanvas((s) => {
    const [node = '', port = ''] = from.split('.');
    return madeAt(own(s.status, node), port) ?? own(s.previews, from) ?? '';
  });
  const scale = Math.min(LARGEST, 1 / zoom);
  const insert = (event: MouseEvent) => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    theEditor()?.openAddMenu({ x: left, y: top }, { edge: id });
  };
  const cut = () => {
    theEditor()?.cut([id]);
    stage.setState({ wire: null });
  };
  return (
    <div
      className="wire-tools nodrag nopan"
      data-id={id}
      style={{ transform: `translate(${x}px, ${y}px) scale(${scale}) translate(-50%, -100%)` }}
      onPointerEnter={() => {
        holdWire(id);
      }}
      onPointerLeave={() => {
        leaveWire(id);
      }}
    >
      {text !== '' && <div className="wire-preview">{text}</div>}
      <div className="wire-buttons">
        <button type="button" aria-label="Insert a node here" title="Insert a node here" onClick={insert}>
          <Plus size={12} strokeWidth={2.5} />
        </button>
        <button type="button" aria-label="Cut wire" title="Cut wire" onClick={cut}>
          <X size={12} strokeWidth={2.5} />
        </button>
      </div>
    </div>
  );
}
