/**
 * React Flow over the document. It holds what moves at the moment; the document holds what stays.
 *
 * Every node is drawn, in view or not: Tab and screen readers reach all, and drawing only what is in view was no faster.
 */

import {
  Background,
  BackgroundVariant,
  ReactFlow,
  SelectionMode,
  useReactFlow,
  useStore,
  type EdgeTypes,
  type NodeTypes,
} from '@xyflow/react';
import { useEffect, useMemo, type MouseEvent } from 'react';

import { useApp } from '../../state/hooks';
import { Frame, Note } from './Annotation';
import { useClipboard } from './clipboard';
import { refresh, stop } from './connecting';
import { ConnectionLine, ConnectionReason } from './ConnectionLine';
import { Editor, setEditor, theEditor } from './editor';
import { annotationOf, isThere, parted, type Card, type Wire } from './items';
import { NodeCard } from './NodeCard';
import { Overview } from './Overview';
import { PromisedWire } from './PromisedWire';
import { stage, useStage } from './stage';
import { useDragging } from './use_dragging';
import { useItems } from './use_items';
import { useShortcuts } from './use_shortcuts';
import { LEAST_ZOOM, useView } from './use_view';
import { useWiring } from './use_wiring';
import { hoverWire, leaveWire } from './wire_hover';
import { WireLine } from './WireLine';

export const NODE_TYPES: NodeTypes = { card: NodeCard, frame: Frame, note: Note };
export const EDGE_TYPES: EdgeTypes = { wire: WireLine };
export const MOST_ZOOM = 2;
/** Below these, cards say less in larger letters: see `data-distance` in distance.css. */
const MIDDLE_DISTANCE = 0.62;
const FAR_DISTANCE = 0.45;
/** Below this, a card is its title, with the sign of its state. */
const TITLES_ONLY = 0.3;
const SELECT_MORE = ['Shift', 'Control', 'Meta'];
const LEFT_AND_MIDDLE = [0, 1];
const MIDDLE = [1];

export function Flow({ frame }: { frame: HTMLElement }) {
  const flow = useEditor(frame);
  const { nodes, edges, onNodesChange, onEdgesChange, onSelectionStart, onSelectionEnd, settle, carry } = useItems();
  const { abandon, ...wiring } = useWiring();
  const dragging = useDragging(settle, carry);
  const { onInit, onMoveStart, onMoveEnd } = useView(flow, frame);
  const box = useStage((s) => s.box);
  useShortcuts(abandon);
  useClipboard();
  return (
    <ReactFlow<Card, Wire>
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodesChange={onNodesChange}
      onEdgesChange={onEdgesChange}
      onSelectionStart={onSelectionStart}
      onSelectionEnd={onSelectionEnd}
      {...wiring}
      {...dragging}
      onNodeClick={choose}
      onNodeMouseEnter={enter}
      onNodeMouseLeave={leave}
      onEdgeMouseEnter={enterWire}
      onEdgeMouseLeave={exitWire}
      onPaneClick={stop}
      onMoveStart={onMoveStart}
      onInit={onInit}
      onMoveEnd={onMoveEnd}
      connectionLineComponent={ConnectionLine}
      connectionRadius={26}
      connectionDragThreshold={4}
      connectOnClick={false}
      reconnectRadius={12}
      minZoom={LEAST_ZOOM}
      maxZoom={MOST_ZOOM}
      zoomOnDoubleClick={false}
      panOnDrag={box ? MIDDLE : LEFT_AND_MIDDLE}
      selectionOnDrag={box}
      selectionMode={SelectionMode.Partial}
      selectionKeyCode="Shift"
      multiSelectionKeyCode={SELECT_MORE}
      deleteKeyCode={null}
      panActivationKeyCode={null}
      zoomActivationKeyCode={null}
      disableKeyboardA11y
      attributionPosition="top-right"
      aria-label="Pipeline"
    >
      <Background variant={BackgroundVariant.Dots} gap={20} size={1.5} />
      <Overview />
      <PromisedWire />
      <ConnectionReason />
      <Distance frame={frame} />
    </ReactFlow>
  );
}

/** The editor of this canvas, for as long as it is on the page. */
function useEditor(frame: HTMLElement) {
  const app = useApp();
  const flow = useReactFlow<Card, Wire>();
  const editor = useMemo(() => new Editor(app, flow, frame), [app, flow, frame]);
  useEffect(() => {
    setEditor(editor);
    const unsubscribe = app.store.subscribe((state, before) => {
      if (state.doc !== before.doc) refresh(app);
      const { wire } = stage.getState();
      if (wire !== null && !Object.hasOwn(state.doc.edges, wire)) stage.setState({ wire: null });
      if (state.document !== before.document) stage.setState({ menu: null, wire: null, tip: null });
      const { renaming } = stage.getState();
      // Who types goes on typing when another tab gives the pipeline another name.
      const goesOn = state.work === before.work && (renaming === null || isThere(state.doc, renaming));
      if (!goesOn) stage.setState({ renaming: null });
    });
    return () => {
      unsubscribe();
      stage.setState(stage.getInitialState(), true);
    };
  }, [app, editor]);
  return flow;
}

/** A click on one of several chosen nodes means that one; React Flow thinks only of dragging them all. */
function choose({ ctrlKey, metaKey, shiftKey }: MouseEvent, { id }: Card): void {
  if (!ctrlKey && !metaKey && !shiftKey) theEditor()?.app.select({ ...parted([id]), edges: [] });
}

function enter(_event: unknown, { id }: Card): void {
  if (annotationOf(id) === undefined && stage.getState().connecting?.by === 'pointer') stage.setState({ over: id });
}

function enterWire({ buttons }: MouseEvent, { id }: Wire): void {
  if (buttons === 0) hoverWire(id);
}

function exitWire(_event: unknown, { id }: Wire): void {
  leaveWire(id);
}

function leave(): void {
  if (stage.getState().over !== null) stage.setState({ over: null });
}

/** Sets for the style sheet how far away the cards are. */
export function Distance({ frame }: { frame: HTMLElement }) {
  const distance = useStore(({ transform: [, , zoom] }) =>
    zoom < FAR_DISTANCE ? 'far' : zoom < MIDDLE_DISTANCE ? 'middle' : 'near',
  );
  const titlesOnly = useStore(({ transform: [, , zoom] }) => zoom < TITLES_ONLY);
  useEffect(() => {
    frame.setAttribute('data-distance', distance);
    frame.toggleAttribute('data-titles-only', titlesOnly);
  }, [frame, distance, titlesOnly]);
  return null;
}
