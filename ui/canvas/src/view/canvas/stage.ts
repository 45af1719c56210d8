/** What happens on the canvas at this moment: menus, a wire being drawn, a node being carried. Never part of a document. */

import type { ReactNode } from 'react';
import { createStore } from 'zustand/vanilla';
import { useStore } from 'zustand';

import type { End } from '../../document/ends';
import type { DocPosition, NodeTypeInfo } from '../../protocol';
import type { Side } from '../../rules/wiring';

/** A place on the screen, in client pixels. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** A wire on its way from a port. */
export interface Connecting {
  readonly from: End;
  readonly side: Side;
  readonly kind: string;
  readonly by: 'pointer' | 'keyboard';
  /** By `node.port` of each port on the other side: "" where the wire may end, else why not. */
  readonly reasons: ReadonlyMap<string, string>;
}

export interface AddMenu {
  readonly kind: 'add';
  readonly screen: Point;
  readonly at: DocPosition;
  /** The port whose wire was dropped here: the new node is wired to it. */
  readonly wire: { readonly from: End; readonly side: Side } | null;
  /** The wire into which the new node goes. */
  readonly edge: string | null;
}

export interface ContextMenu {
  readonly kind: 'context';
  readonly screen: Point;
  readonly of: { readonly node: string } | { readonly edge: string } | { readonly annotation: string } | null;
}

export interface Tip {
  readonly anchor: DOMRect;
  readonly side: 'top' | 'bottom' | 'left' | 'right';
  readonly body: ReactNode;
}

export interface Carried {
  readonly type: NodeTypeInfo;
  readonly screen: Point;
  readonly overCanvas: boolean;
}

export interface Stage {
  readonly menu: AddMenu | ContextMenu | null;
  readonly tip: Tip | null;
  readonly connecting: Connecting | null;
  /** The node under the pointer while a wire is drawn. */
  readonly over: string | null;
  /** The wire that shows its buttons. */
  readonly wire: string | null;
  /** The wire into which what is dragged would be put. */
  readonly target: string | null;
  /** The item whose title or text is being typed. */
  readonly renaming: string | null;
  readonly carried: Carried | null;
  /** Dragging on the canvas selects instead of moving the view. */
  readonly box: boolean;
  /** Said to screen readers. */
  readonly announcement: string;
}

export const stage = createStore<Stage>(() => ({
  menu: null,
  tip: null,
  connecting: null,
  over: null,
  wire: null,
  target: null,
  renaming: null,
  carried: null,
  box: false,
  announcement: '',
}));

export function useStage<T>(select: (stage: Stage) => T): T {
  return useStore(stage, select);
}

export function announce(announcement: string): void {
  stage.setState({ announcement });
}
