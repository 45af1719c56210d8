/** Buttons on the canvas: zoom, fit, arrange, and what dragging does. */

import { useReactFlow, useStore } from '@xyflow/react';
import { BoxSelect, Maximize, Minus, Network, Plus } from 'lucide-react';
import type { ReactNode } from 'react';

import { useCanvas } from '../../state/hooks';
import { smooth } from './motion';
import { printed } from './shortcuts';
import { useEditor } from './editor';
import { stage, useStage } from './stage';

export function CanvasControls() {
  const editor = useEditor();
  const box = useStage((s) => s.box);
  const empty = useCanvas((s) => Object.keys(s.doc.nodes).length === 0);
  const several = useCanvas((s) => s.selection.nodes.length > 1);
  return (
    <div className="canvas-controls" role="toolbar" aria-label="View" aria-orientation="horizontal">
      <Control name="Zoom out" keys="-" press={() => editor?.zoom('out')}>
        <Minus size={14} />
      </Control>
      <Zoom />
      <Control name="Zoom in" keys="+" press={() => editor?.zoom('in')}>
        <Plus size={14} />
      </Control>
      <Control name="Fit view" keys="F" disabled={empty} press={() => editor?.fit()}>
        <Maximize size={14} />
      </Control>
      <Control
        name="Arrange"
        title={several ? 'Arrange the selected nodes' : 'Arrange'}
        keys="L"
        disabled={empty}
        press={() => editor?.arrange()}
      >
        <Network size={14} />
      </Control>
      <Control
        name="Select by dragging"
        keys="V"
        pressed={box}
        press={() => {
          stage.setState({ box: !box });
        }}
      >
        <BoxSelect size={14} />
      </Control>
    </div>
  );
}

export function Zoom() {
  const flow = useReactFlow();
  const percent = useStore((s) => Math.round(s.transform[2] * 100));
  return (
    <button
      type="button"
      className="canvas-zoom"
      aria-label={`Zoom ${percent} %: back to 100 %`}
      title="Back to 100 %"
      onClick={() => void flow.zoomTo(1, smooth())}
    >
      {percent}%
    </button>
  );
}

interface ControlProps {
  name: string;
  title?: string;
  keys?: string;
  disabled?: boolean;
  pressed?: boolean;
  press: () => void;
  children: ReactNode;
}

export function Control({ name, title = name, keys, disabled = false, pressed, press, children }: ControlProps) {
  return (
    <button
      type="button"
      aria-label={name}
      title={keys === undefined ? title : `${title} (${printed(keys)})`}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={press}
    >
      {children}
    </button>
  );
}
