/** Keys typed anywhere in the editor, and what they do: see shortcuts.ts for the table. */

import { useEffect } from 'react';

import { look } from '../../state/commands';
import { openDialog, panels } from '../../state/panels';
import { NOTHING } from '../../state/state';
import { duplicate } from './clipboard';
import { stop } from './connecting';
import { useEditor, type Editor } from './editor';
import { focusIsNowhere, focusedIn, isTyping, rootOf } from '../parts/focus';
import { itemOf, parted } from './items';
import { shortcutFor, type Action, type Scope } from './shortcuts';
import { announce, stage } from './stage';

const NEAR = 8;
const FAR = 32;
/** Arrow presses closer together than this are one step of undo. */
const ONE_MOVE_MS = 1000;

const REMOVABLE = '.inspector, .react-flow__node';

const MODIFIERS: ReadonlySet<string> = new Set(['Shift', 'Control', 'Meta', 'Alt']);

export function useShortcuts(abandonWire: () => void): void {
  const editor = useEditor();
  useEffect(() => {
    if (!editor) return;
    const root = rootOf(editor.frame);
    // The text field that has the focus, of what another tab may remove at any moment.
    let field: Element | null = null;
    // The same while the page follows another tab. Fields also go by one's own doing, after which keys are shortcuts.
    let endangered: Element | null = null;
    const unsubscribe = editor.app.store.subscribe((state, before) => {
      if (state.theirs === before.theirs || !field?.isConnected) return;
      const watched = field;
      endangered = watched;
      // It is drawn within a frame; the second is to be sure.
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          if (endangered === watched && watched.isConnected) endangered = null;
        }),
      );
    });
    const onFocus = (event: Event) => {
      const [target] = event.composedPath();
      field = target instanceof Element && isTyping(target) && target.closest(REMOVABLE) ? target : null;
      endangered = null;
    };
    const onPointer = () => {
      endangered = null;
    };
    /** Whether the field is gone from under the typing person, whose letters are no shortcuts then. */
    const isLost = (event: KeyboardEvent) => {
      if (event.key === 'Escape') endangered = null;
      return endangered !== null && !endangered.isConnected && !event.ctrlKey && !event.metaKey;
    };
    const onKeyDown = (event: Event) => {
      if (!(event instanceof KeyboardEvent)) return;
      handle(editor, event, abandonWire);
      keep(event);
    };
    const onOther = (event: Event) => {
      if (event instanceof KeyboardEvent) keep(event);
    };
    // Nothing has the focus, as after a click beside the editor: the keys are the canvas's all the same.
    const onPage = (event: KeyboardEvent) => {
      if (!focusIsNowhere() || event.composedPath().includes(root) || isLost(event)) return;
      handle(editor, event, abandonWire);
    };
    root.addEventListener('focusin', onFocus);
    window.addEventListener('pointerdown', onPointer, true);
    root.addEventListener('keydown', onKeyDown);
    root.addEventListener('keyup', onOther);
    root.addEventListener('keypress', onOther);
    window.addEventListener('keydown', onPage);
    return () => {
      unsubscribe();
      root.removeEventListener('focusin', onFocus);
      window.removeEventListener('pointerdown', onPointer, true);
      root.removeEventListener('keydown', onKeyDown);
      root.removeEventListener('keyup', onOther);
      root.removeEventListener('keypress', onOther);
      window.removeEventListener('keydown', onPage);
    };
  }, [editor, abandonWire]);
}

/** Streamlit reruns on `r` and clears its cache on `c`: keys typed here stay here. React Flow watches modifiers outside. */
function keep(event: KeyboardEvent): void {
  if (!MODIFIERS.has(event.key)) event.stopPropagation();
}

function handle(editor: Editor, event: KeyboardEvent, abandonWire: () => void): void {
  if (event.defaultPrevented || event.isComposing) return;
  if (chooseFocused(editor, event)) return;
  const shortcut = shortcutFor(event);
  if (!shortcut || !applies(shortcut.scope, editor, event)) return;
  event.preventDefault();
  ACTS[shortcut.action](editor, event, abandonWire);
}

/** Enter or Space on a card or wire selects it. */
function chooseFocused(editor: Editor, event: KeyboardEvent): boolean {
  if ((event.key !== 'Enter' && event.key !== ' ') || event.ctrlKey || event.metaKey || event.altKey) return false;
  const [target] = event.composedPath();
  const id = target instanceof Element ? target.getAttribute('data-id') : null;
  if (!(target instanceof Element) || id === null) return false;
  const isNode = target.classList.contains('react-flow__node');
  if (!isNode && !target.classList.contains('react-flow__edge')) return false;
  event.preventDefault();
  const { selection } = editor.app.state;
  const kept = event.shiftKey ? selection : NOTHING;
  const found = parted(isNode ? [id] : []);
  editor.app.select({
    nodes: [...kept.nodes, ...found.nodes],
    edges: isNode ? kept.edges : [...kept.edges, id],
    annotations: [...(kept.annotations ?? []), ...found.annotations],
  });
  return true;
}

function applies(scope: Scope, editor: Editor, event: KeyboardEvent): boolean {
  if (panels.getState().dialog) return false;
  if (scope === 'typing') return true;
  if (stage.getState().menu) return event.key === 'Escape';
  if (isTyping(event.composedPath()[0])) return false;
  if (scope === 'studio') return true;
  const focused = focusedIn(editor.frame);
  return focused === null || editor.frame.contains(focused);
}

type Act = (editor: Editor, event: KeyboardEvent, abandonWire: () => void) => void;

const ACTS: Readonly<Record<Action, Act>> = {
  save: (editor) => {
    editor.save();
  },
  run: (editor) => {
    editor.run();
  },
  help: () => {
    openDialog({ kind: 'help' });
  },
  add: (editor) => {
    editor.openAddMenu();
  },
  undo: ({ app }) => {
    tellMoved('Undone', app.undo());
  },
  redo: ({ app }) => {
    tellMoved('Redone', app.redo());
  },
  duplicate: (editor) => {
    duplicate(editor);
  },
  delete: (editor) => {
    editor.remove();
  },
  look: (editor) => {
    const [node] = editor.app.state.selection.nodes;
    if (node !== undefined) look(editor.app, node);
  },
  rename: (editor) => {
    const { nodes, annotations = [] } = editor.app.state.selection;
    const item = nodes[0] ?? annotations.map(itemOf)[0];
    if (item !== undefined) stage.setState({ renaming: item });
  },
  disable: (editor) => {
    editor.toggleMode('disabled');
  },
  bypass: (editor) => {
    editor.toggleMode('bypass');
  },
  frame: (editor) => {
    editor.addFrame();
  },
  note: (editor) => {
    editor.addNote();
  },
  all: (editor) => {
    editor.selectAll();
  },
  escape: giveUp,
  next: (editor) => {
    editor.step(1);
  },
  previous: (editor) => {
    editor.step(-1);
  },
  move: nudge(NEAR),
  'move-far': nudge(FAR),
  fit: (editor) => {
    editor.fit();
  },
  'zoom-in': (editor) => {
    editor.zoom('in');
  },
  'zoom-out': (editor) => {
    editor.zoom('out');
  },
  arrange: (editor) => {
    editor.arrange();
  },
  box: () => {
    stage.setState(({ box }) => ({ box: !box }));
  },
};

function tellMoved(word: string, label: string | null): void {
  announce(label === null ? `Nothing to ${word === 'Undone' ? 'undo' : 'redo'}.` : `${word}: ${label}.`);
}

/** Gives up what is under way, one thing at a time; when nothing is, the selection. */
function giveUp(editor: Editor, _event: KeyboardEvent, abandonWire: () => void): void {
  const { connecting, menu } = stage.getState();
  if (menu) stage.setState({ menu: null });
  else if (connecting?.by === 'pointer') abandonWire();
  else if (connecting) stop();
  else editor.selectNothing();
}

let timer: ReturnType<typeof setTimeout> | undefined;

const WAYS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function nudge(distance: number): Act {
  return (editor, event) => {
    const [dx, dy] = WAYS[event.key] ?? [0, 0];
    const group = editor.nudge(dx * distance, dy * distance);
    clearTimeout(timer);
    timer = setTimeout(() => {
      editor.app.seal(group);
    }, ONE_MOVE_MS);
  };
}
