/** What is open around the canvas: dialogs, the dock below, the side panels. Nothing of it is part of a document. */

import { useStore } from 'zustand';
import { createStore } from 'zustand/vanilla';

import { recall, remember } from './remembered';

export type Dialog =
  | { kind: 'open' }
  | { kind: 'new' }
  | { kind: 'save-as' }
  | { kind: 'rename' }
  | { kind: 'delete' }
  | { kind: 'revert' }
  | { kind: 'overwrite' }
  | { kind: 'parameters' }
  | { kind: 'run'; start: string | null; end: string | null; fresh: boolean }
  | { kind: 'help' }
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
}

export const panels = createStore<Panels>(() => ({
  dialog: null,
  dock: null,
  palette: true,
  inspector: true,
  inspectorTab: 'parameters',
  dockHeight: recall('dockHeight', 220),
  inspectorWidth: recall('inspectorWidth', 320),
  profile: recall<string | null>('profile', null),
}));

export function usePanels<T>(select: (panels: Panels) => T): T {
  return useStore(panels, select);
}

export function openDialog(dialog: Dialog): void {
  panels.setState({ dialog });
}

export function closeDialog(): void {
  panels.setState({ dialog: null });
}

/** Heights, widths and the profile stay as they are for the next visit. */
export function keep(change: Partial<Pick<Panels, 'dockHeight' | 'inspectorWidth' | 'profile'>>): void {
  panels.setState(change);
  for (const [name, value] of Object.entries(change)) remember(name, value);
}
