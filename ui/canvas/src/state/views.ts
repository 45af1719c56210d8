/** What of a node can be looked at, as the state has it now. */

import { useMemo } from 'react';

import { typeOf } from '../rules/ports';
import { viewsOf, type View } from '../rules/views';
import { useCanvas } from './hooks';
import type { State } from './state';

const NONE: View[] = [];

/** By the node's output ports, in their order. */
export function viewsAt(state: State, node: string): View[] {
  const ports = typeOf(state.doc, state.types, node)?.outputs.map(({ name }) => name) ?? [];
  return viewsOf(state, node, ports);
}

/** The same for a view: it is drawn again only when a key has changed. */
export function useViews(node: string): View[] {
  const text = useCanvas((state) => {
    const views = viewsAt(state, node);
    return views.length === 0 ? '' : JSON.stringify(views);
  });
  return useMemo(() => (text === '' ? NONE : (JSON.parse(text) as View[])), [text]);
}
