/** Frames and notes on the canvas. A frame is held by its title; what lies in it can be reached as if it were not there. */

import type { NodeProps } from '@xyflow/react';
import { memo, useRef, useState, type KeyboardEvent, type PointerEvent } from 'react';

import { LEAST_SIZE } from '../../document/annotations';
import { own } from '../../document/own';
import type { Size } from '../../document/sizes';
import { useCanvas } from '../../state/hooks';
import { theEditor } from './editor';
import { focusedIn, focusNode } from './focus';
import { annotationOf, type Card } from './items';
import { stage, useStage } from './stage';

export const Frame = memo(function Frame({ id }: NodeProps<Card>) {
  const item = useAnnotation(id);
  const renaming = useStage((s) => s.renaming === id);
  const [size, grip] = useResizing(id);
  if (!item) return null;
  return (
    <div className="frame" data-colour={item.colour} data-testid={`annotation-${annotationOf(id) ?? ''}`} style={size}>
      {renaming ? (
        <input
          {...fieldProps(id)}
          className="frame-title frame-title-field nodrag nopan"
          aria-label="Title of the frame"
          placeholder="Title"
          dir="auto"
          defaultValue={item.text}
        />
      ) : (
        <div className="frame-title" dir="auto" onDoubleClick={write(id)}>
          {item.text || 'Frame'}
        </div>
      )}
      {grip}
    </div>
  );
});

export const Note = memo(function Note({ id }: NodeProps<Card>) {
  const item = useAnnotation(id);
  const renaming = useStage((s) => s.renaming === id);
  const [size, grip] = useResizing(id);
  if (!item) return null;
  return (
    <div className="note" data-colour={item.colour} data-testid={`annotation-${annotationOf(id) ?? ''}`} style={size}>
      {renaming ? (
        <textarea
          {...fieldProps(id)}
          className="note-field nodrag nopan nowheel"
          aria-label="Text of the note"
          placeholder="Write a note"
          dir="auto"
          defaultValue={item.text}
        />
      ) : (
        <div className="note-text" dir="auto" data-empty={item.text === '' || undefined} onDoubleClick={write(id)}>
          {item.text || 'Double-click to write'}
        </div>
      )}
      {grip}
    </div>
  );
});

function useAnnotation(id: string) {
  return useCanvas((s) => own(s.doc.annotations, annotationOf(id) ?? ''));
}

function write(id: string) {
  return (event: { stopPropagation: () => void }) => {
    event.stopPropagation();
    stage.setState({ renaming: id, tip: null });
  };
}

/** A field that keeps what is typed when it is left; Escape forgets it. In a note Enter begins a line. */
function fieldProps(id: string) {
  const leave = (text: string | null) => {
    // Leaving the field by a key blurs it as well: only the first counts.
    if (stage.getState().renaming !== id) return;
    stage.setState({ renaming: null });
    const editor = theEditor();
    if (text !== null) editor?.write(annotationOf(id) ?? '', text.trim());
    if (editor) focusNode(editor.frame, id);
  };
  return {
    ref: focusAll,
    onBlur: ({ currentTarget }: { currentTarget: HTMLInputElement | HTMLTextAreaElement }) => {
      leave(currentTarget.value);
    },
    onKeyDown: (event: KeyboardEvent<HTMLInputElement | HTMLTextAreaElement>) => {
      const { value } = event.currentTarget;
      const command = event.ctrlKey || event.metaKey;
      // Saving saves what is typed here too.
      if (command && event.key === 's') leave(value);
      const done = event.key === 'Enter' && (command || event.currentTarget instanceof HTMLInputElement);
      if (!done && event.key !== 'Escape') return;
      event.preventDefault();
      event.stopPropagation();
      leave(done ? value : null);
    },
  };
}

const FRAMES = 20;

function focusAll(field: HTMLInputElement | HTMLTextAreaElement | null): void {
  if (field) focusSoon(field, FRAMES);
}

/** What was just added is hidden until React Flow has measured it, and can't take the focus before. */
function focusSoon(field: HTMLInputElement | HTMLTextAreaElement, frames: number): void {
  field.focus({ preventScroll: true });
  if (focusedIn(field) === field) field.select();
  else if (frames > 0) {
    requestAnimationFrame(() => {
      focusSoon(field, frames - 1);
    });
  }
}

/** A corner to drag, and the size while it is dragged: the document takes the last one only. */
function useResizing(id: string) {
  const [size, setSize] = useState<Size>();
  const from = useRef<{ x: number; y: number; size: Size } | null>(null);
  const at = ({ clientX, clientY }: PointerEvent): Size | null => {
    const zoom = theEditor()?.flow.getZoom() ?? 1;
    const start = from.current;
    if (!start) return null;
    return {
      width: Math.max(LEAST_SIZE.width, start.size.width + (clientX - start.x) / zoom),
      height: Math.max(LEAST_SIZE.height, start.size.height + (clientY - start.y) / zoom),
    };
  };
  const end = (event: PointerEvent) => {
    const found = at(event);
    from.current = null;
    setSize(undefined);
    if (found) theEditor()?.resize(annotationOf(id) ?? '', found);
  };
  const grip = (
    <div
      className="annotation-grip nodrag nopan"
      aria-hidden
      onPointerDown={(event) => {
        const item = own(theEditor()?.app.state.doc.annotations ?? {}, annotationOf(id) ?? '');
        if (!item || event.button !== 0) return;
        event.stopPropagation();
        event.currentTarget.setPointerCapture(event.pointerId);
        from.current = { x: event.clientX, y: event.clientY, size: { width: item.width, height: item.height } };
      }}
      onPointerMove={(event) => {
        const found = at(event);
        if (found) setSize(found);
      }}
      onPointerUp={end}
      onPointerCancel={() => {
        from.current = null;
        setSize(undefined);
      }}
    />
  );
  return [size, grip] as const;
}
