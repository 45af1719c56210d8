/** What React Flow says while a wire is drawn or re-attached, and what it means for the document. */

import { useStoreApi, type Connection, type FinalConnectionState, type HandleType } from '@xyflow/react';
import { useEffect, useMemo, useRef } from 'react';

import { written, type End } from '../../document/ends';
import { whyNot, type Side } from '../../rules/wiring';
import type { App } from '../../state/app';
import { useApp } from '../../state/hooks';
import { begin, stop } from './connecting';
import { theEditor } from './editor';
import { rootOf } from '../parts/focus';
import type { Card, Wire } from './items';
import { stage, type Point } from './stage';

/** Less than this is a click, not a wire dropped somewhere. */
const DROPPED = 12;

interface Start {
  readonly at: Point;
  readonly from: End;
  readonly side: Side;
  /** The wire that is taken by one end. */
  readonly edge: string | null;
}

type Dropped = FinalConnectionState;

interface Wiring {
  isValidConnection: (connection: Connection | Wire) => boolean;
  onConnectStart: (
    event: MouseEvent | TouchEvent,
    from: { nodeId: string | null; handleId: string | null; handleType: HandleType | null },
  ) => void;
  onConnect: (connection: Connection) => void;
  onConnectEnd: (event: MouseEvent | TouchEvent, state: Dropped) => void;
  onReconnectStart: (event: unknown, edge: Wire) => void;
  onReconnect: (edge: Wire, connection: Connection) => void;
  onReconnectEnd: () => void;
  /** Give up the wire that is being drawn. */
  abandon: () => void;
}

export function useWiring(): Wiring {
  const app = useApp();
  const store = useStoreApi<Card, Wire>();
  const start = useRef<Start | null>(null);
  const taken = useRef<string | null>(null);

  const wiring = useMemo((): Wiring => {
    const finish = () => {
      start.current = null;
      stop();
    };
    return {
      isValidConnection: (connection) => {
        const { source, target } = ends(connection);
        return whyNot(app.state.doc, app.state.types, source, target) === '';
      },
      onConnectStart: (event, { nodeId, handleId, handleType }) => {
        if (nodeId === null || handleId === null || handleType === null) return;
        const from = { node: nodeId, port: handleId };
        const side = handleType === 'source' ? 'output' : 'input';
        start.current = { at: pointOf(event), from, side, edge: taken.current };
        begin(app, from, side, 'pointer');
      },
      onConnect: (connection) => {
        if (start.current) theEditor()?.connect(...fromStart(start.current, connection));
      },
      onConnectEnd: (event, state) => {
        const begun = start.current;
        finish();
        if (begun && !state.isValid) dropped(app, begun, pointOf(event));
      },
      onReconnectStart: (_event, edge) => {
        taken.current = edge.id;
      },
      onReconnect: (edge, connection) => {
        if (!start.current) return;
        const [fixed, side, to] = fromStart(start.current, connection);
        theEditor()?.reconnect(edge.id, fixed, side, to);
      },
      onReconnectEnd: () => {
        taken.current = null;
      },
      abandon: () => {
        finish();
        store.getState().cancelConnection();
      },
    };
  }, [app, store]);

  useForwardedMouse();
  return wiring;
}

function ends(connection: Connection | Wire): { source: string; target: string } {
  return {
    source: written(connection.source, connection.sourceHandle ?? ''),
    target: written(connection.target, connection.targetHandle ?? ''),
  };
}

function fromStart({ from, side }: Start, connection: Connection): [End, Side, End] {
  const other =
    side === 'output'
      ? { node: connection.target, port: connection.targetHandle ?? '' }
      : { node: connection.source, port: connection.sourceHandle ?? '' };
  return [from, side, other];
}

/** A wire was let go where it does not fit at once: on a card's body, on the empty canvas, or elsewhere. */
function dropped(app: App, { at, from, side, edge }: Start, here: Point): void {
  const editor = theEditor();
  if (!editor || Math.hypot(here.x - at.x, here.y - at.y) < DROPPED) return;
  const element = rootOf(editor.frame).elementFromPoint(here.x, here.y);
  // On a port that does not fit: the reason stood at the pointer already.
  if (!element || element.closest('.react-flow__handle')) return;
  const node = element.closest('.react-flow__node')?.getAttribute('data-id');
  if (node !== null && node !== undefined) {
    if (node === from.node) return;
    const why = editor.connectToNode(from, side, node, edge);
    if (why !== '') app.notify('info', why);
    return;
  }
  if (!element.closest('.react-flow__pane, .react-flow__edges, .react-flow__edge')) return;
  if (edge !== null) editor.cut([edge]);
  else editor.openAddMenu(here, { wire: { from, side } });
}

function pointOf(event: MouseEvent | TouchEvent): Point {
  const point = 'clientX' in event ? event : (event.changedTouches[0] ?? event.touches[0]);
  return { x: point?.clientX ?? 0, y: point?.clientY ?? 0 };
}

/**
 * React Flow listens for the mouse on the shadow root while a wire is drawn, so what happens outside of
 * it would never end the wire. Here it is passed on.
 */
function useForwardedMouse(): void {
  useEffect(() => {
    const forward = (event: MouseEvent) => {
      const { connecting } = stage.getState();
      const editor = theEditor();
      if (connecting?.by !== 'pointer' || !editor) return;
      const root = rootOf(editor.frame);
      if (event.composedPath().includes(root)) return;
      const { clientX, clientY, button, buttons } = event;
      root.dispatchEvent(new MouseEvent(event.type, { clientX, clientY, button, buttons }));
    };
    window.addEventListener('mousemove', forward);
    window.addEventListener('mouseup', forward);
    return () => {
      window.removeEventListener('mousemove', forward);
      window.removeEventListener('mouseup', forward);
    };
  }, []);
}
