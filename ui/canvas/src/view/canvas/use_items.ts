/** Keeps React Flow's cards and wires in step with the document and the selection, both ways. */

import { applyEdgeChanges, applyNodeChanges, type EdgeChange, type NodeChange } from '@xyflow/react';
import { useCallback, useEffect, useRef, useState } from 'react';
import { flushSync } from 'react-dom';

import { own } from '../../document/own';
import type { App } from '../../state/app';
import { useApp } from '../../state/hooks';
import type { DocPosition } from '../../protocol';
import { annotationOf, cards, itemOf, parted, wires, type Card, type Wire } from './items';

interface Items {
  nodes: Card[];
  edges: Wire[];
  onNodesChange: (changes: NodeChange<Card>[]) => void;
  onEdgesChange: (changes: EdgeChange<Wire>[]) => void;
  onSelectionStart: () => void;
  onSelectionEnd: () => void;
  /** Take positions from the document again, after a drag that changed nothing in it. */
  settle: () => void;
  /** Items that follow a frame in the person's hand; with `held` false they are let go. */
  carry: (positions: ReadonlyMap<string, DocPosition>, held: boolean) => void;
}

type Selecting = Extract<NodeChange<Card> | EdgeChange<Wire>, { type: 'select' }>;

export function useItems(): Items {
  const app = useApp();
  const [nodes, setNodes] = useState(() => cards(app.state.doc, app.state.selection, []));
  const [edges, setEdges] = useState(() => wires(app.state.doc, app.state.selection, []));
  /** The nodes inside the box that is being drawn; the app hears of them when it is finished. */
  const boxed = useRef<Set<string> | null>(null);

  const settle = useCallback(() => {
    const { doc, selection } = app.state;
    const chosen = boxed.current ? null : selection;
    setNodes((before) => cards(doc, chosen, before));
    setEdges((before) => wires(doc, chosen, before));
  }, [app]);

  useEffect(() => {
    settle();
    return app.store.subscribe((state, before) => {
      if (state.doc !== before.doc || state.selection !== before.selection) settle();
    });
  }, [app, settle]);

  const onNodesChange = useCallback(
    (changes: NodeChange<Card>[]) => {
      // The document alone says which nodes there are.
      const shown = changes.filter(
        (change) =>
          change.type === 'position' ||
          change.type === 'dimensions' ||
          // A box is drawn inside of a frame to choose some of what it holds.
          (change.type === 'select' && !(boxed.current && isFrame(app, change.id))),
      );
      if (shown.length === 0) return;
      const apply = () => {
        setNodes((before) => applyNodeChanges(shown, before));
      };
      // React Flow compares the box with the marks it last drew: those must not lag behind the pointer.
      if (boxed.current) flushSync(apply);
      else apply();
      const selecting = shown.filter((change) => change.type === 'select');
      if (boxed.current) mark(boxed.current, selecting);
      else chooseItems(app, selecting);
    },
    [app],
  );

  const onEdgesChange = useCallback(
    (changes: EdgeChange<Wire>[]) => {
      // A box chooses nodes; that wires touch them goes without saying.
      const shown = boxed.current ? [] : changes.filter((change) => change.type === 'select');
      if (shown.length > 0) setEdges((before) => applyEdgeChanges(shown, before));
      chooseWires(app, shown);
    },
    [app],
  );

  const onSelectionStart = useCallback(() => {
    const { nodes: chosen, annotations = [] } = app.state.selection;
    boxed.current = new Set([...chosen, ...annotations.map(itemOf)]);
  }, [app]);

  const onSelectionEnd = useCallback(() => {
    const found = boxed.current;
    boxed.current = null;
    if (found) app.select({ ...parted([...found]), edges: [] });
    settle();
  }, [app, settle]);

  const carry = useCallback((positions: ReadonlyMap<string, DocPosition>, held: boolean) => {
    setNodes((before) =>
      before.map((card) => {
        const position = positions.get(card.id);
        return position ? { ...card, position, dragging: held } : card;
      }),
    );
  }, []);

  return { nodes, edges, onNodesChange, onEdgesChange, onSelectionStart, onSelectionEnd, settle, carry };
}

function chooseItems(app: App, changes: readonly Selecting[]): void {
  if (changes.length === 0) return;
  const { nodes, edges, annotations = [] } = app.state.selection;
  const chosen = new Set([...nodes, ...annotations.map(itemOf)]);
  mark(chosen, changes);
  app.select({ ...parted([...chosen]), edges });
}

function chooseWires(app: App, changes: readonly Selecting[]): void {
  if (changes.length === 0) return;
  const { selection } = app.state;
  const chosen = new Set(selection.edges);
  mark(chosen, changes);
  app.select({ ...selection, edges: [...chosen] });
}

function isFrame(app: App, item: string): boolean {
  const annotation = annotationOf(item);
  return annotation !== undefined && own(app.state.doc.annotations, annotation)?.kind === 'frame';
}

function mark(chosen: Set<string>, changes: readonly Selecting[]): void {
  for (const { id, selected } of changes) {
    if (selected) chosen.add(id);
    else chosen.delete(id);
  }
}
