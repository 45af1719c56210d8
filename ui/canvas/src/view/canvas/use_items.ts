/** Keeps React Flow's cards and wires in step with the document and the selection, both ways. */

import { applyEdgeChanges, applyNodeChanges, type EdgeChange, type NodeChange } from '@xyflow/react';
import { useCallback, useEffect, useRef, useState } from 'react';
import { flushSync } from 'react-dom';

import type { App } from '../../state/app';
import { useApp } from '../../state/hooks';
import { cards, wires, type Card, type Wire } from './items';

interface Items {
  nodes: Card[];
  edges: Wire[];
  onNodesChange: (changes: NodeChange<Card>[]) => void;
  onEdgesChange: (changes: EdgeChange<Wire>[]) => void;
  onSelectionStart: () => void;
  onSelectionEnd: () => void;
  /** Take positions from the document again, after a drag that changed nothing in it. */
  settle: () => void;
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
      const shown = changes.filter(({ type }) => type === 'position' || type === 'dimensions' || type === 'select');
      if (shown.length === 0) return;
      const apply = () => {
        setNodes((before) => applyNodeChanges(shown, before));
      };
      // React Flow compares the box with the marks it last drew: those must not lag behind the pointer.
      if (boxed.current) flushSync(apply);
      else apply();
      const selecting = shown.filter((change) => change.type === 'select');
      if (boxed.current) mark(boxed.current, selecting);
      else choose(app, 'nodes', selecting);
    },
    [app],
  );

  const onEdgesChange = useCallback(
    (changes: EdgeChange<Wire>[]) => {
      // A box chooses nodes; that wires touch them goes without saying.
      const shown = boxed.current ? [] : changes.filter((change) => change.type === 'select');
      if (shown.length > 0) setEdges((before) => applyEdgeChanges(shown, before));
      choose(app, 'edges', shown);
    },
    [app],
  );

  const onSelectionStart = useCallback(() => {
    boxed.current = new Set(app.state.selection.nodes);
  }, [app]);

  const onSelectionEnd = useCallback(() => {
    const found = boxed.current;
    boxed.current = null;
    if (found) app.select({ nodes: [...found], edges: [] });
    settle();
  }, [app, settle]);

  return { nodes, edges, onNodesChange, onEdgesChange, onSelectionStart, onSelectionEnd, settle };
}

function choose(app: App, what: 'nodes' | 'edges', changes: readonly Selecting[]): void {
  if (changes.length === 0) return;
  const { selection } = app.state;
  const chosen = new Set(selection[what]);
  mark(chosen, changes);
  app.select({ ...selection, [what]: [...chosen] });
}

function mark(chosen: Set<string>, changes: readonly Selecting[]): void {
  for (const { id, selected } of changes) {
    if (selected) chosen.add(id);
    else chosen.delete(id);
  }
}
