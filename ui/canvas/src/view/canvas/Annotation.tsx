/** Frames and notes on the canvas. A frame is held by its title; what lies in it can be reached as if it were not there. */

import type { NodeProps } from '@xyflow/react';
import { memo, useEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from 'react';

import { LEAST_SIZE } from '../../document/annotations';
import { own } from '../../document/own';
import type { Size } from '../../document/sizes';
import { useApp, useCanvas } from '../../state/hooks';
import { Writing } from '../../state/writing';
import { focusedIn, focusNode } from '../parts/focus';
import { useTyped } from '../parts/typed';
import { theEditor } from './editor';
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
        <FrameField id={id} text={item.text} />
      ) : (
        <div className="frame-title" dir="auto" onDoubleClick={begin(id)}>
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
        <NoteField id={id} text={item.text} />
      ) : (
        <div className="note-text" dir="auto" data-empty={item.text === '' || undefined} onDoubleClick={begin(id)}>
          {item.text || 'Double-click to write'}
        </div>
      )}
      {grip}
    </div>
  );
});

function FrameField({ id, text }: { id: string; text: string }) {
  const field = useField(id, text);
  return (
    <input
      {...field}
      className="frame-title frame-title-field nodrag nopan"
      aria-label="Title of the frame"
      placeholder="Title"
      dir="auto"
    />
  );
}

function NoteField({ id, text }: { id: string; text: string }) {
  const field = useField(id, text);
  return (
    <textarea
      {...field}
      className="note-field nodrag nopan nowheel"
      aria-label="Text of the note"
      placeholder="Write a note"
      dir="auto"
    />
  );
}

function useAnnotation(id: string) {
  return useCanvas((s) => own(s.doc.annotations, annotationOf(id) ?? ''));
}

function begin(id: string) {
  return (event: { stopPropagation: () => void }) => {
    event.stopPropagation();
    stage.setState({ renaming: id, tip: null });
  };
}

type Field = HTMLInputElement | HTMLTextAreaElement;

/**
 * A field whose text the document gets as it is typed, so that a reload keeps it; Escape takes it back. In a note Enter
 * begins a line.
 */
function useField(id: string, text: string) {
  const app = useApp();
  const [writing] = useState(() => new Writing(app, annotationOf(id) ?? ''));
  useEffect(
    () => () => {
      writing.close();
    },
    [writing],
  );
  const typed = useTyped(text, (now) => {
    writing.write(now);
  });
  const leave = (kept: boolean) => {
    // Leaving the field by a key blurs it as well: only the first counts.
    if (stage.getState().renaming !== id) return;
    stage.setState({ renaming: null });
    writing.end(kept);
    const editor = theEditor();
    if (editor) focusNode(editor.frame, id);
  };
  return {
    ref: focusAll,
    value: typed.text,
    onChange: ({ currentTarget }: { currentTarget: Field }) => {
      typed.type(currentTarget.value);
    },
    onBlur: () => {
      leave(true);
    },
    onKeyDown: (event: KeyboardEvent<Field>) => {
      const command = event.ctrlKey || event.metaKey;
      // Saving saves it without the spaces around it.
      if (command && event.key.toLowerCase() === 's') leave(true);
      const done = event.key === 'Enter' && (command || event.currentTarget instanceof HTMLInputElement);
      if (!done && event.key !== 'Escape') return;
      event.preventDefault();
      event.stopPropagation();
      leave(done);
    },
  };
}

const FRAMES = 20;

function focusAll(field: Field | null): void {
  if (field) focusSoon(field, FRAMES);
}

/** What is not drawn yet can't take the focus. */
function focusSoon(field: Field, frames: number): void {
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
