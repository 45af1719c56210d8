/**
 * Dragging a node type to the canvas. Pointer events instead of HTML5 drag and drop: that one hides
 * what is under the pointer inside a shadow root, and does not exist on touch screens.
 */

import type { NodeTypeInfo } from '../../protocol';
import { theEditor, type Editor } from '../canvas/editor';
import { rootOf } from '../parts/focus';
import { stage, type Point } from '../canvas/stage';
import { hideTip } from '../canvas/tips';

/** Less than this is a click. */
const DRAG = 5;

/** The pointer went down on a node type: if it moves on, the type is carried until it is let go. */
export function startCarrying(start: { clientX: number; clientY: number }, type: NodeTypeInfo): void {
  const editor = theEditor();
  if (!editor) return;
  let begun = false;

  const onMove = (event: PointerEvent) => {
    const { clientX: x, clientY: y } = event;
    if (!begun && Math.hypot(x - start.clientX, y - start.clientY) < DRAG) return;
    begun = true;
    hideTip();
    const overCanvas = isOver(editor, { x, y });
    const target = overCanvas ? editor.wireFor(type, [{ x, y }]) : null;
    stage.setState({ carried: { type, screen: { x, y }, overCanvas }, target });
  };
  const onUp = (event: PointerEvent) => {
    const { carried, target } = stage.getState();
    end();
    if (!carried || !isOver(editor, { x: event.clientX, y: event.clientY })) return;
    if (target !== null) editor.addIntoWire(target, type);
    else editor.addAt(type, { x: event.clientX, y: event.clientY });
    editor.frame.focus({ preventScroll: true });
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    end();
  };
  const end = () => {
    window.removeEventListener('keydown', onKey, true);
    window.removeEventListener('pointermove', onMove);
    window.removeEventListener('pointerup', onUp);
    window.removeEventListener('pointercancel', end);
    if (stage.getState().carried) stage.setState({ carried: null, target: null });
  };
  // Before anyone else: Escape puts the node back, and does nothing more.
  window.addEventListener('keydown', onKey, true);
  window.addEventListener('pointermove', onMove);
  window.addEventListener('pointerup', onUp);
  window.addEventListener('pointercancel', end);
}

function isOver(editor: Editor, { x, y }: Point): boolean {
  const element = rootOf(editor.frame).elementFromPoint(x, y);
  return element !== null && editor.frame.contains(element) && !element.closest('.canvas-controls');
}
