/** The menu of the right mouse button (or the menu key): what can be done with a node, a wire, or the canvas. */

import { Fragment, useEffect, useMemo, useRef, type KeyboardEvent } from 'react';

import { COLOURS, type Colour } from '../../document/annotations';
import { edgesAt } from '../../document/ends';
import { own } from '../../document/own';
import { whyNoBypass } from '../../rules/modes';
import { capitalised } from '../../rules/wording';
import { look } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { viewsAt } from '../../state/views';
import { copyByMenu, cutByMenu, duplicate, pasteByMenu } from './clipboard';
import { useEditor, type Editor } from './editor';
import { focusCanvas } from '../parts/focus';
import { Floating } from './Floating';
import { itemOf } from './items';
import { printed } from './shortcuts';
import { stage, type ContextMenu as Opened } from './stage';

interface Item {
  label: string;
  keys?: string;
  disabled?: boolean;
  /** The last of its group: a line follows. */
  last?: boolean;
  /** Shown as a dot before the label. */
  colour?: Colour;
  act: () => void;
}

export function ContextMenu({ menu }: { menu: Opened }) {
  const app = useApp();
  const editor = useEditor();
  const box = useRef<HTMLDivElement>(null);
  const selected = useCanvas((s) => s.selection.nodes.length);
  const items = useMemo(() => (editor ? itemsOf(menu, editor, selected) : []), [menu, editor, selected]);
  const anchor = useMemo(() => {
    const { x, y } = menu.screen;
    return { left: x, top: y, right: x, bottom: y };
  }, [menu]);

  useEffect(() => {
    buttons(box.current)[0]?.focus({ preventScroll: true });
  }, [menu]);

  const close = () => {
    stage.setState({ menu: null });
    if (editor) focusCanvas(editor.frame);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = buttons(box.current);
    const at = all.findIndex((button) => button.matches(':focus'));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) all.at(to % all.length)?.focus({ preventScroll: true });
    else if (event.key === 'Escape' || event.key === 'Tab') close();
    else return;
    event.preventDefault();
  };

  return (
    <Floating anchor={anchor} side="corner" className="context-menu" role="presentation">
      <div
        role="menu"
        tabIndex={-1}
        aria-label={labelOf(menu, app.state.selection.nodes.length)}
        ref={box}
        onKeyDown={onKeyDown}
      >
        {items.map(({ label, keys, disabled, last, colour, act }) => (
          <Fragment key={label}>
            <button
              type="button"
              role="menuitem"
              disabled={disabled}
              tabIndex={-1}
              onClick={() => {
                close();
                act();
              }}
            >
              <span>
                {colour && <span className="swatch swatch-small" data-colour={colour} aria-hidden />}
                {label}
              </span>
              {keys !== undefined && <kbd aria-hidden="true">{printed(keys)}</kbd>}
            </button>
            {last && <hr />}
          </Fragment>
        ))}
      </div>
    </Floating>
  );
}

function labelOf({ of }: Opened, selected: number): string {
  if (of === null) return 'Canvas';
  if ('edge' in of) return 'Wire';
  if ('annotation' in of) return 'Frame or note';
  return selected > 1 ? `${selected} nodes` : 'Node';
}

function buttons(box: HTMLElement | null): HTMLButtonElement[] {
  return [...(box?.querySelectorAll<HTMLButtonElement>('button:not(:disabled)') ?? [])];
}

function itemsOf({ of, screen }: Opened, editor: Editor, selected: number): Item[] {
  if (of === null) return ofCanvas(editor, screen);
  if ('annotation' in of) return ofAnnotation(editor, of.annotation);
  return 'edge' in of ? ofWire(editor, of.edge, screen) : ofNode(editor, of.node, selected);
}

function ofNode(editor: Editor, id: string, selected: number): Item[] {
  const { doc, selection } = editor.app.state;
  const one = selected <= 1;
  const mode = own(doc.nodes, id)?.mode;
  const wired = edgesAt(doc, new Set(selection.nodes)).length > 0;
  return [
    {
      label: 'Look at data',
      keys: 'D',
      disabled: !one || viewsAt(editor.app.state, id).length === 0,
      last: true,
      act: () => {
        look(editor.app, id);
      },
    },
    {
      label: 'Run to here',
      disabled: !one,
      act: () => {
        editor.run(null, id);
      },
    },
    {
      label: 'Run from here',
      disabled: !one,
      last: true,
      act: () => {
        editor.run(id, null);
      },
    },
    {
      label: mode === 'disabled' ? 'Enable' : 'Disable',
      keys: 'M',
      act: () => {
        editor.toggleMode('disabled');
      },
    },
    {
      label: mode === 'bypass' ? 'End the bypass' : 'Bypass',
      keys: 'B',
      disabled: mode !== 'bypass' && whyNoBypass(doc, editor.app.state.types, id) !== '',
      act: () => {
        editor.toggleMode('bypass');
      },
    },
    {
      label: 'Frame',
      keys: 'G',
      last: true,
      act: () => {
        editor.addFrame();
      },
    },
    {
      label: 'Rename',
      keys: 'F2',
      disabled: !one,
      act: () => {
        stage.setState({ renaming: id });
      },
    },
    ...copies(editor),
    {
      label: 'Cut',
      keys: 'Ctrl+X',
      last: true,
      act: () => {
        cutByMenu(editor);
      },
    },
    {
      label: 'Disconnect',
      disabled: !wired,
      act: () => {
        editor.disconnect(selection.nodes);
      },
    },
    {
      label: 'Delete',
      keys: 'Delete',
      act: () => {
        editor.remove();
      },
    },
  ];
}

/** What makes another of whatever is selected. */
function copies(editor: Editor): Item[] {
  return [
    {
      label: 'Duplicate',
      keys: 'Ctrl+D',
      act: () => {
        duplicate(editor);
      },
    },
    {
      label: 'Copy',
      keys: 'Ctrl+C',
      act: () => {
        copyByMenu(editor);
      },
    },
  ];
}

function ofAnnotation(editor: Editor, id: string): Item[] {
  const frame = own(editor.app.state.doc.annotations, id)?.kind === 'frame';
  const ofFrame: Item[] = [
    {
      label: 'Fit to its nodes',
      act: () => {
        editor.fitFrame(id);
      },
    },
    {
      label: 'Select what it holds',
      last: true,
      act: () => {
        editor.selectFramed(id);
      },
    },
  ];
  return [
    {
      label: frame ? 'Rename' : 'Write',
      keys: 'F2',
      last: !frame,
      act: () => {
        stage.setState({ renaming: itemOf(id) });
      },
    },
    ...(frame ? ofFrame : []),
    ...COLOURS.map((colour, index) => ({
      label: capitalised(colour),
      colour,
      last: index === COLOURS.length - 1,
      act: () => {
        editor.colour(editor.app.state.selection.annotations ?? [id], colour);
      },
    })),
    ...copies(editor),
    {
      label: 'Delete',
      keys: 'Delete',
      act: () => {
        editor.remove();
      },
    },
  ];
}

function ofWire(editor: Editor, edge: string, screen: Opened['screen']): Item[] {
  return [
    {
      label: 'Insert a node here',
      act: () => {
        editor.openAddMenu(screen, { edge });
      },
    },
    {
      label: 'Cut wire',
      keys: 'Delete',
      act: () => {
        editor.cut([edge]);
      },
    },
  ];
}

function ofCanvas(editor: Editor, screen: Opened['screen']): Item[] {
  const empty = Object.keys(editor.app.state.doc.nodes).length === 0;
  return [
    {
      label: 'Add node',
      keys: '/',
      act: () => {
        editor.openAddMenu(screen);
      },
    },
    {
      label: 'Add frame',
      keys: 'G',
      act: () => {
        editor.addFrame(screen);
      },
    },
    {
      label: 'Add note',
      keys: 'T',
      act: () => {
        editor.addNote(screen);
      },
    },
    {
      label: 'Paste',
      keys: 'Ctrl+V',
      last: true,
      act: () => {
        void pasteByMenu(editor, screen);
      },
    },
    {
      label: 'Select all',
      keys: 'Ctrl+A',
      disabled: empty,
      act: () => {
        editor.selectAll();
      },
    },
    {
      label: 'Arrange',
      keys: 'L',
      disabled: empty,
      act: () => {
        editor.arrange();
      },
    },
    {
      label: 'Fit view',
      keys: 'F',
      disabled: empty,
      act: () => {
        editor.fit();
      },
    },
  ];
}
