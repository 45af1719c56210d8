/** A pipeline's graph to look at: the cards, ports and wires of the canvas, and nothing that could be changed. */

import {
  Background,
  BackgroundVariant,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  type NodeChange,
} from '@xyflow/react';
import { Maximize, Minus, Plus } from 'lucide-react';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';

import { own } from '../../document/own';
import type { Size } from '../../document/sizes';
import { useApp, useCanvas } from '../../state/hooks';
import { look } from '../../state/commands';
import { PictureContext, usePicture } from '../../state/picture';
import { usePanels } from '../../state/panels';
import { viewsAt } from '../../state/views';
import type { Picture as Pictured } from '../../protocol';
import { Control, Zoom } from '../canvas/CanvasControls';
import { kindColours } from '../parts/colours';
import { Floating } from '../canvas/Floating';
import { Distance, EDGE_TYPES, MOST_ZOOM, NODE_TYPES } from '../canvas/Flow';
import { annotationOf, cards, wires, type Card, type Wire } from '../canvas/items';
import { smooth } from '../canvas/motion';
import { useStage } from '../canvas/stage';
import { LEAST_ZOOM } from '../canvas/use_view';
import { LookDialog } from '../look/LookDialog';
import { Legend } from './Legend';

const FIT = { padding: 0.06, maxZoom: 1 };
/** With these the wheel zooms; without it scrolls the page, in which the picture stands. */
const ZOOM_KEYS = ['Control', 'Meta'];

interface Props {
  picture: Pictured;
  choose: (node: string) => void;
}

export function Picture({ picture, choose }: Props) {
  const { changes, datasets, names } = picture;
  const colours = useMemo(() => kindColours(datasets), [datasets]);
  const shown = useMemo(() => ({ changes }), [changes]);
  const dialog = usePanels((p) => p.dialog);
  return (
    <PictureContext value={shown}>
      <div className="studio picture" style={colours}>
        <ReactFlowProvider>
          <Frame choose={choose} />
        </ReactFlowProvider>
        {changes && <Legend changes={changes} names={names} />}
        <Tip />
        {dialog?.kind === 'look' && <LookDialog key={dialog.views.map(({ key }) => key).join()} looking={dialog} />}
      </div>
    </PictureContext>
  );
}

function Frame({ choose }: { choose: (node: string) => void }) {
  const [frame, setFrame] = useState<HTMLElement | null>(null);
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      const { target } = event;
      const card = target instanceof Element ? target.closest('.react-flow__node') : null;
      const node = card?.getAttribute('data-id') ?? '';
      if (node === '' || annotationOf(node) !== undefined) return;
      event.preventDefault();
      choose(node);
    };
    frame?.addEventListener('keydown', onKeyDown);
    return () => {
      frame?.removeEventListener('keydown', onKeyDown);
    };
  }, [frame, choose]);
  return (
    <section ref={setFrame} className="canvas" aria-label="Graph">
      {frame && <Graph frame={frame} choose={choose} />}
      <Controls />
    </section>
  );
}

function Graph({ frame, choose }: { frame: HTMLElement; choose: (node: string) => void }) {
  const app = useApp();
  const compares = usePicture()?.changes !== null;
  const { nodes, edges, onNodesChange } = useItems();
  const movedRef = useFitting(frame);
  return (
    <ReactFlow<Card, Wire>
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      onNodesChange={onNodesChange}
      onNodeClick={(_event, { id }) => {
        if (annotationOf(id) === undefined) choose(id);
      }}
      onNodeDoubleClick={(_event, { id }) => {
        if (!compares && viewsAt(app.state, id).length > 0) look(app, id);
      }}
      onMoveStart={(event) => {
        // Without an event it is the picture itself that fits into its frame.
        if (event) movedRef.current = true;
      }}
      fitView
      fitViewOptions={FIT}
      nodesDraggable={false}
      nodesConnectable={false}
      elementsSelectable={false}
      edgesFocusable={false}
      nodesFocusable
      disableKeyboardA11y
      deleteKeyCode={null}
      selectionKeyCode={null}
      panActivationKeyCode={null}
      zoomActivationKeyCode={ZOOM_KEYS}
      zoomOnScroll={false}
      zoomOnDoubleClick={false}
      preventScrolling={false}
      minZoom={LEAST_ZOOM}
      maxZoom={MOST_ZOOM}
      attributionPosition="top-right"
      aria-label="Pipeline"
    >
      <Background variant={BackgroundVariant.Dots} gap={20} size={1.5} />
      <Distance frame={frame} />
    </ReactFlow>
  );
}

function useItems() {
  const doc = useCanvas((s) => s.doc);
  const selection = useCanvas((s) => s.selection);
  const [measured, setMeasured] = useState<Readonly<Record<string, Size>>>({});
  const nodes = useMemo(
    () =>
      cards(doc, selection, []).map((card) => {
        const size = own(measured, card.id);
        return size ? { ...card, measured: size } : card;
      }),
    [doc, selection, measured],
  );
  const edges = useMemo(() => wires(doc, selection, []), [doc, selection]);
  // Cards report how large they are; nothing else about them changes here.
  const onNodesChange = useCallback((changes: NodeChange<Card>[]) => {
    const found: Record<string, Size> = {};
    for (const change of changes) {
      if (change.type === 'dimensions' && change.dimensions) found[change.id] = change.dimensions;
    }
    if (Object.keys(found).length > 0) setMeasured((before) => ({ ...before, ...found }));
  }, []);
  return { nodes, edges, onNodesChange };
}

/** All of it stays in view when the frame changes its size or the graph its cards, until somebody has moved the view. */
function useFitting(frame: HTMLElement) {
  const flow = useReactFlow();
  const count = useCanvas((s) => Object.keys(s.doc.nodes).join());
  const movedRef = useRef(false);
  useEffect(() => {
    const fit = () => {
      if (!movedRef.current) void flow.fitView(FIT);
    };
    const observer = new ResizeObserver(fit);
    observer.observe(frame);
    const soon = requestAnimationFrame(() => requestAnimationFrame(fit));
    return () => {
      observer.disconnect();
      cancelAnimationFrame(soon);
    };
  }, [flow, frame, count]);
  return movedRef;
}

function Controls() {
  const flow = useReactFlow();
  return (
    <div className="canvas-controls" role="toolbar" aria-label="View" aria-orientation="horizontal">
      <Control name="Zoom out" press={() => void flow.zoomOut(smooth())}>
        <Minus size={14} />
      </Control>
      <Zoom />
      <Control name="Zoom in" press={() => void flow.zoomIn(smooth())}>
        <Plus size={14} />
      </Control>
      <Control name="Fit view" press={() => void flow.fitView({ ...FIT, ...smooth() })}>
        <Maximize size={14} />
      </Control>
    </div>
  );
}

function Tip() {
  const tip = useStage((s) => s.tip);
  if (!tip) return null;
  return (
    <div className="canvas-overlay">
      <Floating className="tip" role="tooltip" anchor={tip.anchor} side={tip.side}>
        {tip.body}
      </Floating>
    </div>
  );
}
