/** The menu of the right mouse button (or the menu key): what can be done with a node, a wire, or the canvas. */

import { Fragment, useEffect, useMemo, useRef, type KeyboardEvent } from 'react';

import { edgesAt } from '../../document/ends';
import { useApp, useCanvas } from '../../state/hooks';
import { copyByMenu, cutByMenu, duplicate, pasteByMenu } from './clipboard';
import type { Editor } from './editor';
import { focusCanvas } from './focus';
import { Floating } from './Floating';
import { printed } from './shortcuts';
import { stage, useStage, type ContextMenu as Opened } from './stage';

interface Item {
  label: string;
  keys?: string;
  disabled?: boolean;
  /** The last of its group: a line follows. */
  last?: boolean;
  act: () => void;
}

export function ContextMenu({ menu }: { menu: Opened }) {
  const app = useApp();
  const editor = useStage((s) => s.editor);
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
        {items.map(({ label, keys, disabled, last, act }) => (
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
              <span>{label}</span>
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
  return selected > 1 ? `${selected} nodes` : 'Node';
}

function buttons(box: HTMLElement | null): HTMLButtonElement[] {
  return [...(box?.querySelectorAll<HTMLButtonElement>('button:not(:disabled)') ?? [])];
}

function itemsOf({ of, screen }: Opened, editor: Editor, selected: number): Item[] {
  if (of === null) return ofCanvas(editor, screen);
  return 'edge' in of ? ofWire(editor, of.edge, screen) : ofNode(editor, of.node, selected);
}

function ofNode(editor: Editor, id: string, selected: number): Item[] {
  const { doc, selection } = editor.app.state;
  const one = selected <= 1;
  const wired = edgesAt(doc, new Set(selection.nodes)).length > 0;
  return [
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
      label: 'Rename',
      keys: 'F2',
      disabled: !one,
      act: () => {
        stage.setState({ renaming: id });
      },
    },
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
