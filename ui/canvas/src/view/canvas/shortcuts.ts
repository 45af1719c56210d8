/** Every shortcut of the editor: the one table that the keyboard handler and the help dialog read. */

export type Group = 'Pipeline' | 'Edit' | 'Select and move' | 'View' | 'Mouse';

export type Action =
  | 'save'
  | 'run'
  | 'help'
  | 'add'
  | 'undo'
  | 'redo'
  | 'duplicate'
  | 'delete'
  | 'rename'
  | 'disable'
  | 'bypass'
  | 'frame'
  | 'note'
  | 'look'
  | 'all'
  | 'escape'
  | 'next'
  | 'previous'
  | 'move'
  | 'move-far'
  | 'fit'
  | 'zoom-in'
  | 'zoom-out'
  | 'arrange'
  | 'box';

/** Where the focus must be: `studio` is anywhere in the editor, `canvas` on the canvas, `typing` even in a text field. */
export type Scope = 'typing' | 'studio' | 'canvas';

export interface Shortcut {
  /** Chords as a person reads them, e.g. `Ctrl+Shift+Z`; Ctrl is the command key on a Mac. */
  readonly keys: readonly string[];
  readonly label: string;
  readonly group: Group;
  /** What the keyboard handler does; null: the browser, the port or the mouse does it. */
  readonly action: Action | null;
  readonly scope: Scope;
}

function on(scope: Scope, group: Group, action: Action | null, label: string, ...keys: string[]): Shortcut {
  return { keys, label, group, action, scope };
}

export const SHORTCUTS: readonly Shortcut[] = [
  on('typing', 'Pipeline', 'save', 'Save', 'Ctrl+S'),
  on('studio', 'Pipeline', 'run', 'Run', 'Ctrl+Enter'),
  on('studio', 'Pipeline', 'help', 'Keyboard shortcuts', '?'),

  on('studio', 'Edit', 'add', 'Add a node', '/'),
  on('studio', 'Edit', 'undo', 'Undo', 'Ctrl+Z'),
  on('studio', 'Edit', 'redo', 'Redo', 'Ctrl+Shift+Z', 'Ctrl+Y'),
  on('canvas', 'Edit', null, 'Copy', 'Ctrl+C'),
  on('canvas', 'Edit', null, 'Cut', 'Ctrl+X'),
  on('canvas', 'Edit', null, 'Paste at the pointer', 'Ctrl+V'),
  on('canvas', 'Edit', 'duplicate', 'Duplicate', 'Ctrl+D'),
  on('canvas', 'Edit', 'delete', 'Delete nodes, cut wires', 'Delete', 'Backspace'),
  on('canvas', 'Edit', 'rename', 'Rename a node', 'F2'),
  on('canvas', 'Edit', 'disable', 'Disable nodes, or enable them', 'M'),
  on('canvas', 'Edit', 'bypass', 'Bypass nodes, or end it', 'B'),
  on('canvas', 'Edit', 'frame', 'Frame the selected nodes, or a new frame', 'G'),
  on('canvas', 'Edit', 'note', 'Add a note', 'T'),
  on('canvas', 'View', 'look', 'Look at the data of a node', 'D'),
  on('canvas', 'Edit', null, 'On a port: start a wire, and finish it on another', 'Enter'),

  on('canvas', 'Select and move', 'all', 'Select all', 'Ctrl+A'),
  on('canvas', 'Select and move', 'escape', 'Cancel, or select nothing', 'Escape'),
  on('canvas', 'Select and move', 'next', 'Next node', 'N'),
  on('canvas', 'Select and move', 'previous', 'Previous node', 'Shift+N'),
  on('canvas', 'Select and move', 'move', 'Move by 8', 'ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'),
  on(
    'canvas',
    'Select and move',
    'move-far',
    'Move by 32',
    'Shift+ArrowLeft',
    'Shift+ArrowRight',
    'Shift+ArrowUp',
    'Shift+ArrowDown',
  ),

  on('studio', 'View', 'fit', 'Fit view', 'F'),
  on('studio', 'View', 'zoom-in', 'Zoom in', '+'),
  on('studio', 'View', 'zoom-out', 'Zoom out', '-'),
  on('studio', 'View', 'arrange', 'Arrange', 'L', 'Ctrl+Shift+A'),
  on('studio', 'View', 'box', 'Dragging selects, or moves the view', 'V'),

  on('canvas', 'Mouse', null, 'Select several nodes', 'Shift+drag'),
  on('canvas', 'Mouse', null, 'Add to the selection', 'Ctrl+click', 'Shift+click'),
  on('canvas', 'Mouse', null, 'Add a node here', 'Double-click'),
  on('canvas', 'Mouse', null, 'Rename a node', 'Double-click its title'),
  on('canvas', 'Mouse', null, 'Zoom', 'Wheel'),
];

/** What a key event says, as far as a shortcut asks. */
export interface Chord {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly shiftKey: boolean;
  readonly altKey: boolean;
}

/** The shortcut that a key event means. */
export function shortcutFor(event: Chord): (Shortcut & { readonly action: Action }) | null {
  for (const shortcut of SHORTCUTS) {
    const { action } = shortcut;
    if (action !== null && shortcut.keys.some((keys) => matches(keys, event))) return { ...shortcut, action };
  }
  return null;
}

function matches(keys: string, event: Chord): boolean {
  const parts = keys === '+' ? ['+'] : keys.split('+');
  const key = parts.at(-1) ?? '';
  if (event.altKey || parts.includes('Ctrl') !== (event.ctrlKey || event.metaKey)) return false;
  // Where `/`, `?` and `+` lie on a keyboard, and so whether they need Shift, differs by country.
  const sign = key.length === 1 && !/[A-Z]/.test(key);
  if (!sign && parts.includes('Shift') !== event.shiftKey) return false;
  return key.length === 1 ? event.key.toUpperCase() === key : event.key === key;
}

const SIGNS: Readonly<Record<string, string>> = { ArrowLeft: '←', ArrowRight: '→', ArrowUp: '↑', ArrowDown: '↓' };

/** A chord as this machine's keyboard prints it. */
export function printed(keys: string, mac: boolean = onMac()): string {
  const signs = keys.replace(/Arrow(Left|Right|Up|Down)/, (name) => SIGNS[name] ?? name);
  return mac ? signs.replace('Ctrl+', '⌘').replace('Shift+', '⇧') : signs;
}

function onMac(): boolean {
  return typeof navigator !== 'undefined' && navigator.userAgent.includes('Mac');
}
