/** Where the view is: kept for each document while the page lives, and taken to where the person asks to go. */

import { getViewportForBounds, type Viewport } from '@xyflow/react';
import { useCallback, useEffect, useRef } from 'react';

import { arranged, heaped } from '../../document/arrange';
import type { Size } from '../../document/sizes';
import { moveNodes } from '../../document/edits';
import { own } from '../../document/own';
import type { Doc } from '../../protocol';
import { useApp, useCanvas } from '../../state/hooks';
import type { State } from '../../state/state';
import type { Flow } from './editor';
import { smooth } from './motion';
import { cardSizes, MARGIN } from './size';
import { hideTip } from './tips';

/** What is in the middle of the frame, in the document's pixels. */
interface View {
  readonly x: number;
  readonly y: number;
  readonly zoom: number;
}

/** By its middle, not by its corner: the frame changes its size, also while the page is left or entered. */
const kept = new Map<string, View>();
/** A pipeline of 300 nodes is seen whole. */
export const LEAST_ZOOM = 0.02;
const NEAREST = 1;
/** A node that is gone to is brought at least this close. */
const READABLE = 0.6;

export function useView(flow: Flow, frame: HTMLElement) {
  const app = useApp();
  const ready = useRef(false);
  /** The frame's size for which the viewport is set. */
  const framed = useRef<Size>({ width: 0, height: 0 });

  const keep = useCallback((document: string, viewport: Viewport) => {
    if (framed.current.width > 0) kept.set(document, viewOf(viewport, framed.current));
  }, []);

  const place = useCallback(
    (state: State) => {
      if (state.document === null) return;
      framed.current = frame.getBoundingClientRect();
      // Written by hand, without positions: nobody could see what lies on one heap.
      if (heaped(state.doc)) {
        app.edit('Arrange', moveNodes(state.doc, arranged(state.doc, cardSizes(state), undefined, framed.current)));
      }
      const view = kept.get(state.document);
      void flow.setViewport(view ? viewportOf(view, framed.current) : whole(app.state, framed.current));
    },
    [app, flow, frame],
  );

  useEffect(
    () =>
      app.store.subscribe((state, before) => {
        if (!ready.current || state.document === before.document || state.document === null) return;
        // Saved under another name: the person looks at the same thing.
        if (sameNodes(state.doc, before.doc)) keep(state.document, flow.getViewport());
        else place(state);
      }),
    [app, flow, keep, place],
  );

  const destination = useCanvas((s) => s.destination);
  const reached = useRef(destination);
  useEffect(() => {
    if (destination === reached.current) return;
    reached.current = destination;
    if (destination?.node) bringIntoView(flow, frame, destination.node, READABLE);
  }, [destination, flow, frame]);

  useEffect(() => {
    // What the keyboard reaches is brought into view; the browser can't scroll a canvas.
    const onFocus = ({ target }: FocusEvent) => {
      if (!(target instanceof Element) || !target.matches(':focus-visible')) return;
      const node = target.closest('.react-flow__node')?.getAttribute('data-id');
      if (node) bringIntoView(flow, frame, node, 0);
    };
    frame.addEventListener('focusin', onFocus);
    return () => {
      frame.removeEventListener('focusin', onFocus);
    };
  }, [flow, frame]);

  useEffect(() => {
    // A panel that opens takes space: what was in the middle stays in the middle.
    const observer = new ResizeObserver(() => {
      const before = framed.current;
      const now = frame.getBoundingClientRect();
      if (!ready.current || now.width === 0) return;
      if (before.width === 0) {
        place(app.state);
      } else if (before.width !== now.width || before.height !== now.height) {
        framed.current = now;
        void flow.setViewport(viewportOf(viewOf(flow.getViewport(), before), now));
      }
    });
    observer.observe(frame);
    return () => {
      observer.disconnect();
    };
  }, [app, flow, frame, place]);

  const onInit = useCallback(() => {
    ready.current = true;
    place(app.state);
  }, [app, place]);

  const onMoveStart = useCallback(() => {
    hideTip();
    frame.toggleAttribute('data-moving', true);
  }, [frame]);

  const onMoveEnd = useCallback(
    (_event: unknown, viewport: Viewport) => {
      frame.removeAttribute('data-moving');
      const { document } = app.state;
      if (document !== null && ready.current) keep(document, viewport);
    },
    [app, keep, frame],
  );

  return { onInit, onMoveStart, onMoveEnd };
}

function viewOf({ x, y, zoom }: Viewport, { width, height }: Size): View {
  return { x: (width / 2 - x) / zoom, y: (height / 2 - y) / zoom, zoom };
}

function viewportOf({ x, y, zoom }: View, { width, height }: Size): Viewport {
  return { x: width / 2 - x * zoom, y: height / 2 - y * zoom, zoom };
}

/** The viewport that shows all of a document, before its cards are measured. */
function whole(state: State, { width, height }: Size): Viewport {
  const boxes = [...cardSizes(state)].flatMap(([id, size]) => {
    const position = own(state.doc.nodes, id)?.position;
    if (!position) return [];
    return [{ left: position.x, top: position.y, right: position.x + size.width, bottom: position.y + size.height }];
  });
  for (const item of Object.values(state.doc.annotations)) {
    const { x, y } = item.position;
    boxes.push({ left: x, top: y, right: x + item.width, bottom: y + item.height });
  }
  if (boxes.length === 0 || width === 0) return { x: 0, y: 0, zoom: NEAREST };
  const x = Math.min(...boxes.map((b) => b.left));
  const y = Math.min(...boxes.map((b) => b.top));
  const bounds = {
    x,
    y,
    width: Math.max(...boxes.map((b) => b.right)) - x,
    height: Math.max(...boxes.map((b) => b.bottom)) - y,
  };
  return getViewportForBounds(bounds, width, height, LEAST_ZOOM, NEAREST, MARGIN);
}

function sameNodes(a: Doc, b: Doc): boolean {
  return a.nodes === b.nodes || JSON.stringify(a.nodes) === JSON.stringify(b.nodes);
}

/** Moves only when the node is not in view already, at a zoom of `least` or more. */
function bringIntoView(flow: Flow, frame: HTMLElement, id: string, least: number): void {
  const node = flow.getInternalNode(id);
  if (!node) return;
  const { x, y } = node.internals.positionAbsolute;
  const size = { width: node.measured.width ?? 0, height: node.measured.height ?? 0 };
  const from = flow.flowToScreenPosition({ x, y });
  const to = flow.flowToScreenPosition({ x: x + size.width, y: y + size.height });
  const { left, top, right, bottom } = frame.getBoundingClientRect();
  const inside = from.x >= left && from.y >= top && to.x <= right && to.y <= bottom;
  const zoom = flow.getZoom();
  if (inside && zoom >= least) return;
  void flow.setCenter(x + size.width / 2, y + size.height / 2, { zoom: Math.max(zoom, least), ...smooth() });
}
