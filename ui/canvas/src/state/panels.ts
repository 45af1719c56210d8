/** What is open around the canvas: dialogs, the dock below, the side panels. Nothing of it is part of a document. */

import { useStore } from 'zustand';
import { createStore } from 'zustand/vanilla';

import type { GalleryItem } from '../protocol';
import type { View } from '../rules/views';
import { recall, remember } from './browser_storage';

export type Dialog =
  | { kind: 'open' }
  | { kind: 'new' }
  | { kind: 'save-as' }
  | { kind: 'rename' }
  | { kind: 'delete' }
  | { kind: 'revert' }
  | { kind: 'overwrite' }
  | { kind: 'history'; document: string }
  | { kind: 'export-code' }
  | { kind: 'allow'; path: string }
  | { kind: 'parameters' }
  | { kind: 'run'; start: string | null; end: string | null; fresh: boolean }
  | { kind: 'help' }
  | Looking
  | Browsing;

/** The file browser; `write` also takes a place that is not there yet. */
export interface Browsing {
  kind: 'browse';
  title: string;
  folders: boolean;
  write?: boolean;
  start: string;
  choose: (path: string) => void;
}

/** What a node made or has, by port; `port` is shown first, and of it the volume `row`, if one is named. */
export interface Looking {
  kind: 'look';
  title: string;
  views: readonly View[];
  port: string;
  row: GalleryItem | null;
}

export interface Panels {
  readonly dialog: Dialog | null;
  readonly dock: 'log' | 'problems' | null;
  readonly palette: boolean;
  readonly inspector: boolean;
  readonly inspectorTab: 'parameters' | 'result' | 'about';
  readonly dockHeight: number;
  readonly inspectorWidth: number;
  /** The compute profile that the next run takes; null: the first. */
  readonly profile: string | null;
  /** 1 once this person has run something, or closed the hint that says how. */
  readonly runKnown: number;
}

/** Narrower than this, the side panels lie over the canvas, begin folded, and one at a time is open. */
const NARROW = typeof matchMedia === 'undefined' ? null : matchMedia('(width < 960px)');

export const panels = createStore<Panels>(() => ({
  dialog: null,
  dock: null,
  palette: !isNarrow(),
  inspector: !isNarrow(),
  inspectorTab: 'parameters',
  dockHeight: recall('dockHeight', 220),
  inspectorWidth: recall('inspectorWidth', 320),
  profile: recall<string | null>('profile', null),
  runKnown: recall('runKnown', 0),
}));

/** What was open while there was room for it. */
let beside: Pick<Panels, 'palette' | 'inspector'> = { palette: true, inspector: true };

NARROW?.addEventListener('change', () => {
  const { palette, inspector } = panels.getState();
  if (isNarrow()) {
    beside = { palette, inspector };
    panels.setState({ palette: false, inspector: false });
  } else {
    // What was opened meanwhile stays open.
    panels.setState({ palette: palette || beside.palette, inspector: inspector || beside.inspector });
  }
});

function isNarrow(): boolean {
  return NARROW?.matches === true;
}

export function usePanels<T>(select: (panels: Panels) => T): T {
  return useStore(panels, select);
}

/** Open or fold the palette or the inspector. */
export function showPanel(panel: 'palette' | 'inspector', open: boolean): void {
  const other = panel === 'palette' ? 'inspector' : 'palette';
  panels.setState({ [panel]: open, ...(open && isNarrow() ? { [other]: false } : {}) });
}

export function openDialog(dialog: Dialog): void {
  panels.setState({ dialog });
}

export function closeDialog(): void {
  panels.setState({ dialog: null });
}

/** Heights, widths, the profile and what is known stay as they are for the next visit. */
export function keep(change: Partial<Pick<Panels, 'dockHeight' | 'inspectorWidth' | 'profile' | 'runKnown'>>): void {
  panels.setState(change);
  for (const [name, value] of Object.entries(change)) remember(name, value);
}
