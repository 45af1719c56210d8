/** The canvas: the pipeline as a graph that is drawn, wired and watched. */

import { ReactFlowProvider } from '@xyflow/react';
import { useState } from 'react';

import { useApp, useCanvas } from '../../state/hooks';
import { CanvasControls } from './CanvasControls';
import { EmptyCanvas } from './EmptyCanvas';
import { Flow } from './Flow';
import { Overlay } from './Overlay';
import { stage, useStage } from './stage';
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
  const editor = useStage((s) => s.editor);
  const box = useStage((s) => s.box);
  const connecting = useStage((s) => s.connecting !== null);
  const opened = useCanvas((s) => s.document !== null);
  const empty = useCanvas((s) => s.document !== null && Object.keys(s.doc.nodes).length === 0);
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
          if (!editor || !(event.target instanceof Element) || event.target.closest('input')) return;
          event.preventDefault();
          const screen = { x: event.clientX, y: event.clientY };
          stage.setState({ menu: { kind: 'context', screen, of: aimedAt(event.target) }, tip: null });
          select(aimedAt(event.target));
        }}
      >
        {opened && frame && <Flow frame={frame} />}
        {empty && <EmptyCanvas />}
        {opened && <CanvasControls />}
      </section>
      {frame && <Overlay frame={frame} />}
    </>
  );

  /** The menu is about what was clicked, or about the whole selection when that was part of it. */
  function select(of: ReturnType<typeof aimedAt>): void {
    if (of === null) return;
    const { selection } = app.state;
    if ('node' in of && !selection.nodes.includes(of.node)) app.select({ nodes: [of.node], edges: [] });
    if ('edge' in of && !selection.edges.includes(of.edge)) app.select({ nodes: [], edges: [of.edge] });
  }
}

function isPane(target: EventTarget): boolean {
  return target instanceof Element && target.classList.contains('react-flow__pane');
}

function aimedAt(target: Element): { node: string } | { edge: string } | null {
  const node = target.closest('.react-flow__node')?.getAttribute('data-id');
  if (node) return { node };
  const edge = target.closest('.react-flow__edge, .wire-tools')?.getAttribute('data-id');
  return edge ? { edge } : null;
}
