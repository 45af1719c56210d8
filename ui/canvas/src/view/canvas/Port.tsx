/** One port: where wires start and end, by mouse and by keyboard. */

import { Handle, Position } from '@xyflow/react';
import {
  memo,
  useCallback,
  useRef,
  type KeyboardEvent,
  type MouseEvent as ReactMouseEvent,
  type PointerEvent,
} from 'react';

import { written } from '../../document/ends';
import { own } from '../../document/own';
import { wireInto } from '../../document/wires';
import type { Doc, NodeStatus } from '../../protocol';
import { pinnedTo, ofPort } from '../../rules/problems';
import { kindFrom, nameOf, spoken, type ShownPort } from '../../rules/ports';
import { listed, type Side } from '../../rules/wiring';
import { useApp, useCanvas } from '../../state/hooks';
import { usePicture } from '../../state/picture';
import { kindStyle } from '../parts/colours';
import { press, verdict } from './connecting';
import { theEditor } from './editor';
import { ProblemList } from '../parts/ProblemText';
import { useStage } from './stage';
import { useTip } from './tips';

/** The mouse moved further than this: a wire was drawn, the port was not clicked. */
const CLICK = 4;

interface Props {
  node: string;
  port: ShownPort;
  side: Side;
}

export const Port = memo(function Port({ node, port, side }: Props) {
  const { name } = port;
  const app = useApp();
  const owner = useCanvas((s) => nameOf(s.doc, node));
  const kind = useCanvas((s) => {
    const wire = side === 'input' ? wireInto(s.doc.edges, written(node, name)) : undefined;
    const source = wire === undefined ? undefined : own(s.doc.edges, wire)?.source;
    return (source && kindFrom(s.doc, s.types, source)) || (port.kinds[0] ?? '');
  });
  const wrong = useCanvas((s) => pinnedTo(s.problems, node).some((p) => p.port === name && p.severity !== 'info'));
  const fit = useStage((s) => verdict(s.connecting, { node, port: name }, side));
  const tip = useTip(
    useCallback(() => <PortTip node={node} port={port} side={side} />, [node, port, side]),
    side === 'input' ? 'left' : 'right',
  );
  const pressed = useRef({ x: 0, y: 0 });
  // In a picture a port only says what it is.
  const fixed = usePicture() !== null;

  const activate = () => {
    const why = press(app, { node, port: name }, side);
    if (why !== '') app.notify('info', why);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    event.stopPropagation();
    activate();
  };
  const onClick = (event: ReactMouseEvent) => {
    event.stopPropagation();
    if (event.detail === 0 || Math.hypot(event.clientX - pressed.current.x, event.clientY - pressed.current.y) < CLICK)
      activate();
  };

  return (
    <div className="port" data-side={side} data-fit={fit ?? undefined} data-wrong={wrong || undefined}>
      <Handle
        type={side === 'input' ? 'target' : 'source'}
        position={side === 'input' ? Position.Left : Position.Right}
        id={name}
        className="port-dot"
        style={kindStyle(kind)}
        // The wire into an input is taken by its end, as in every node editor; an output starts another wire.
        isConnectable={!fixed}
        isConnectableStart={!(side === 'input' && port.wired)}
        onMouseDown={(event: ReactMouseEvent) => {
          if (!fixed && side === 'input' && port.wired && event.button === 0)
            takeEnd(event, written(node, name), app.state.doc);
        }}
        role={fixed ? 'img' : 'button'}
        tabIndex={fixed || fit === 'no' ? -1 : 0}
        aria-label={spoken(side, port, owner) + (wrong ? ', has a problem' : '')}
        aria-pressed={fixed ? undefined : fit === 'start'}
        data-port={name}
        data-side={side}
        data-fit={fit ?? undefined}
        data-wired={port.wired}
        data-hollow={(side === 'input' && port.required && !port.wired) || undefined}
        data-optional={(side === 'input' && !port.required && !port.wired) || undefined}
        data-problem={wrong || undefined}
        {...tip}
        onPointerDown={(event: PointerEvent) => {
          pressed.current = { x: event.clientX, y: event.clientY };
          tip.onPointerDown();
        }}
        onClick={fixed ? undefined : onClick}
        onKeyDown={fixed ? undefined : onKeyDown}
      />
      <span className="port-name" aria-hidden="true">
        {name}
      </span>
    </div>
  );
});

/** Lets React Flow believe that the mouse went down on the end of the wire into an input. */
function takeEnd(event: ReactMouseEvent, input: string, doc: Doc): void {
  const wire = wireInto(doc.edges, input);
  const editor = theEditor();
  if (wire === undefined || !editor) return;
  const { clientX, clientY } = event;
  editor.frame
    .querySelector(`.react-flow__edge[data-id="${CSS.escape(wire)}"] .react-flow__edgeupdater-target`)
    ?.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, composed: true, clientX, clientY, button: 0 }));
}

function PortTip({ node, port, side }: Props) {
  const at = written(node, port.name);
  const problems = useCanvas((s) => pinnedTo(s.problems, node));
  const source = useCanvas((s) => {
    const wire = side === 'input' ? wireInto(s.doc.edges, at) : undefined;
    return side === 'output' ? at : wire === undefined ? undefined : own(s.doc.edges, wire)?.source;
  });
  const preview = useCanvas((s) => (source === undefined ? undefined : own(s.previews, source)));
  const made = useCanvas((s) => (side === 'output' ? madeAt(own(s.status, node), port.name) : undefined));
  const mine = ofPort(problems, node, port.name);
  return (
    <>
      <div className="tip-title">
        {port.name} <span className="tip-muted">{side}</span>
      </div>
      <div className="tip-muted">{port.kinds.length > 0 ? listed(port.kinds) : 'not declared by the node type'}</div>
      {port.help !== '' && <div>{port.help}</div>}
      {(made ?? preview) && <div className="tip-figures">{made ?? preview}</div>}
      {mine.length > 0 && <ProblemList problems={mine} />}
    </>
  );
}

/** What a run made at an output, in figures. */
export function madeAt(status: NodeStatus | undefined, port: string): string | undefined {
  return status?.outputs.find((output) => output.port === port)?.figures;
}
