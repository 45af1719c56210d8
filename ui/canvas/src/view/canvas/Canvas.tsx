/** The canvas: the pipeline as a graph that is drawn, wired and watched. */

import { ReactFlowProvider } from '@xyflow/react';
import { LoaderCircle } from 'lucide-react';
import { useState } from 'react';

import { useApp, useCanvas } from '../../state/hooks';
import { CanvasControls } from './CanvasControls';
import { EmptyCanvas } from './EmptyCanvas';
import { Flow } from './Flow';
import { Overlay } from './Overlay';
import { RunSummary } from './RunSummary';
import { useEditor } from './editor';
import { isTyping } from '../parts/focus';
import { annotationOf } from './items';
import { stage, useStage, type ContextMenu } from './stage';
import { hideTip } from './tips';

export function Canvas() {
  return (
    <ReactFlowProvider>
      <Frame />
    </ReactFlowProvider>
  );
}

function Frame() {
  const app = useApp();
  const [frame, setFrame] = useState<HTMLElement | null>(null);
  const editor = useEditor();
  const box = useStage((s) => s.box);
  const connecting = useStage((s) => s.connecting !== null);
  const opened = useCanvas((s) => s.document !== null);
  const empty = useCanvas(
    (s) => s.document !== null && Object.keys(s.doc.nodes).length + Object.keys(s.doc.annotations).length === 0,
  );
  return (
    <>
      {/* The frame takes the focus when nothing on it has it, so that keys reach the canvas. */}
      <section
        ref={setFrame}
        className="canvas"
        aria-label="Canvas"
        tabIndex={-1}
        data-box={box || undefined}
        data-connecting={connecting || undefined}
        // A press on a card leaves text marked elsewhere as it is, and Ctrl+C would copy that.
        onPointerDownCapture={unmark}
        onPointerMove={({ clientX, clientY }) => {
          editor?.pointAt({ x: clientX, y: clientY });
        }}
        onPointerLeave={() => {
          editor?.pointAt(null);
        }}
        onWheel={hideTip}
        onDoubleClick={({ target, clientX, clientY }) => {
          if (isPane(target)) editor?.openAddMenu({ x: clientX, y: clientY });
        }}
        onContextMenu={(event) => {
          if (!editor || !(event.target instanceof Element) || event.target.closest('input, textarea')) return;
          event.preventDefault();
          const screen = { x: event.clientX, y: event.clientY };
          stage.setState({ menu: { kind: 'context', screen, of: aimedAt(event.target) }, tip: null });
          select(aimedAt(event.target));
        }}
      >
        {opened && frame && <Flow frame={frame} />}
        {empty && <EmptyCanvas />}
        {opened && <CanvasControls />}
        <Opening />
        {opened && <RunSummary />}
      </section>
      {frame && <Overlay frame={frame} />}
    </>
  );

  /** The menu is about what was clicked, or about the whole selection when that was part of it. */
  function select(of: ReturnType<typeof aimedAt>): void {
    if (of === null) return;
    const { selection } = app.state;
    if ('node' in of && !selection.nodes.includes(of.node)) app.select({ nodes: [of.node], edges: [] });
    if ('annotation' in of && !selection.annotations?.includes(of.annotation)) {
      app.select({ nodes: [], edges: [], annotations: [of.annotation] });
    }
    if ('edge' in of && !selection.edges.includes(of.edge)) app.select({ nodes: [], edges: [of.edge] });
  }
}

/** A document that was asked for and is not there yet. */
function Opening() {
  const opening = useCanvas((s) => s.opening);
  if (opening === null) return null;
  return (
    <div className="opening" role="status">
      <LoaderCircle size={16} aria-hidden /> {opening}
    </div>
  );
}

function unmark({ target }: { target: EventTarget }): void {
  if (!isTyping(target)) document.getSelection()?.removeAllRanges();
}

function isPane(target: EventTarget): boolean {
  return target instanceof Element && target.classList.contains('react-flow__pane');
}

function aimedAt(target: Element): ContextMenu['of'] {
  const node = target.closest('.react-flow__node')?.getAttribute('data-id');
  const annotation = annotationOf(node ?? '');
  if (annotation !== undefined) return { annotation };
  if (node) return { node };
  const edge = target.closest('.react-flow__edge, .wire-tools')?.getAttribute('data-id');
  return edge ? { edge } : null;
}
