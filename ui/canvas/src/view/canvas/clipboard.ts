/** Copy, cut and paste: through the system's clipboard wherever the browser allows it, so that nodes travel as text. */

import { useEffect } from 'react';

import { copyText, pasteText } from '../../rules/clipboard';
import { removeItems } from '../../document/edits';
import type { DocPosition } from '../../protocol';
import { useEditor, type Editor } from './editor';
import { focusCanvas, focusIsNowhere, focusedIn, isTyping, rootOf } from '../parts/focus';
import { itemOf } from './items';
import { HEAD, WIDTH } from './size';
import { announce, type Point } from './stage';

const AWAY = 32;

/** What was last copied in this page: pasting from the menu works where reading the clipboard is not allowed. */
let clip = '';
/** Where was pasted last: the next paste at the same place goes beside it. */
let last: { at: DocPosition; times: number } | null = null;

/** Listens to the browser's own copy, cut and paste: they need no permission. */
export function useClipboard(): void {
  const editor = useEditor();
  useEffect(() => {
    if (!editor) return;
    const onCopy = (event: ClipboardEvent) => {
      if (!event.clipboardData || !isForCanvas(editor, event) || textIsSelected(editor)) return;
      const text = copied(editor);
      if (text === null) return;
      event.clipboardData.setData('text/plain', text);
      event.preventDefault();
      if (event.type === 'cut') cutSelected(editor);
    };
    const onPaste = (event: ClipboardEvent) => {
      if (!isForCanvas(editor, event)) return;
      event.preventDefault();
      paste(editor, event.clipboardData?.getData('text/plain') ?? '', null);
    };
    window.addEventListener('copy', onCopy);
    window.addEventListener('cut', onCopy);
    window.addEventListener('paste', onPaste);
    return () => {
      window.removeEventListener('copy', onCopy);
      window.removeEventListener('cut', onCopy);
      window.removeEventListener('paste', onPaste);
    };
  }, [editor]);
}

export function copyByMenu(editor: Editor): void {
  const text = copied(editor);
  if (text !== null) void write(text);
}

export function cutByMenu(editor: Editor): void {
  copyByMenu(editor);
  cutSelected(editor);
}

export async function pasteByMenu(editor: Editor, screen: Point): Promise<void> {
  paste(editor, await read(), screen);
}

/** The chosen nodes once more, a little aside. */
export function duplicate(editor: Editor): void {
  const { doc, selection } = editor.app.state;
  const corner = topLeft(editor);
  if (!corner) return;
  const pasted = pasteText(
    doc,
    copyText(doc, selection.nodes, selection.annotations),
    { x: corner.x + AWAY, y: corner.y + AWAY },
    editor.app.mark,
  );
  if (!pasted) return;
  editor.app.edit(`Duplicate ${counted(pasted)}`, pasted.ops);
  editor.app.select({ nodes: pasted.ids, edges: [], annotations: pasted.annotations });
}

function copied(editor: Editor): string | null {
  const { doc, selection } = editor.app.state;
  const { nodes: ids, annotations = [] } = selection;
  if (ids.length + annotations.length === 0) return null;
  clip = copyText(doc, ids, annotations);
  last = null;
  announce(`Copied ${counted({ ids, annotations })}.`);
  return clip;
}

function cutSelected(editor: Editor): void {
  const { doc, selection } = editor.app.state;
  const { nodes: ids, annotations = [] } = selection;
  editor.app.edit(`Cut ${counted({ ids, annotations })}`, removeItems(doc, ids, [], annotations));
  focusCanvas(editor.frame);
}

function paste(editor: Editor, text: string, screen: Point | null): void {
  const { app, flow } = editor;
  if (app.state.document === null) return;
  const { x, y } = flow.screenToFlowPosition(screen ?? editor.aim());
  const at = beside({ x: x - WIDTH / 2, y: y - HEAD / 2 });
  const pasted = pasteText(app.state.doc, text, at, app.mark);
  if (!pasted) {
    app.notify(
      'info',
      'Nothing to paste: the clipboard holds no nodes.',
      'Copy nodes in this or another pipeline first.',
    );
    return;
  }
  app.edit(`Paste ${counted(pasted)}`, pasted.ops);
  app.select({ nodes: pasted.ids, edges: [], annotations: pasted.annotations });
  announce(`Pasted ${counted(pasted)}.`);
}

interface Copied {
  readonly ids: readonly string[];
  readonly annotations: readonly string[];
}

function counted({ ids, annotations }: Copied): string {
  const words = [
    ids.length === 1 ? 'node' : ids.length > 1 ? `${ids.length} nodes` : '',
    annotations.length === 1 ? 'frame or note' : annotations.length > 1 ? `${annotations.length} frames and notes` : '',
  ];
  return words.filter((word) => word !== '').join(' and ');
}

function beside(at: DocPosition): DocPosition {
  const same = last !== null && Math.hypot(last.at.x - at.x, last.at.y - at.y) < 4;
  const times = same && last ? last.times + 1 : 0;
  last = { at, times };
  return { x: at.x + times * AWAY, y: at.y + times * AWAY };
}

function topLeft(editor: Editor): DocPosition | null {
  const { nodes, annotations = [] } = editor.app.state.selection;
  const at = [...nodes, ...annotations.map(itemOf)].flatMap((item) => editor.placeOf(item) ?? []);
  if (at.length === 0) return null;
  return { x: Math.min(...at.map((p) => p.x)), y: Math.min(...at.map((p) => p.y)) };
}

function isForCanvas(editor: Editor, event: Event): boolean {
  if (event.defaultPrevented || isTyping(event.composedPath()[0])) return false;
  const focused = focusedIn(editor.frame);
  return focused === null ? focusIsNowhere() : editor.frame.contains(focused);
}

/** Text that was marked with the mouse, in a log for instance, is what a person means to copy. */
function textIsSelected(editor: Editor): boolean {
  const root = rootOf(editor.frame);
  const selection = 'getSelection' in root ? root.getSelection() : document.getSelection();
  return selection !== null && !selection.isCollapsed && selection.toString() !== '';
}

/** Without permission, or over plain http, the text stays in `clip`: pasting in this page works all the same. */
async function write(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return;
  }
}

async function read(): Promise<string> {
  try {
    return (await navigator.clipboard.readText()) || clip;
  } catch {
    return clip;
  }
}
