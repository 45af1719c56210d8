/** The menu for adding a node: search, arrow keys, Enter. It offers only what fits where it was opened. */

import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent } from 'react';

import type { NodeTypeInfo } from '../../protocol';
import { findTypes } from '../../rules/search';
import { useCanvas } from '../../state/hooks';
import { focusCanvas, focusNode } from '../parts/focus';
import { Floating } from './Floating';
import { NodeIcon } from '../parts/NodeIcon';
import { useEditor } from './editor';
import { stage, type AddMenu as Opened } from './stage';

export function AddMenu({ menu }: { menu: Opened }) {
  const editor = useEditor();
  const types = useCanvas((s) => s.types);
  const [query, setQuery] = useState('');
  const [at, setAt] = useState(0);
  const list = useId();
  const offered = useMemo(() => editor?.offered(menu, types) ?? [], [editor, menu, types]);
  const found = useMemo(() => findTypes(offered, query), [offered, query]);
  const chosen = Math.min(at, found.length - 1);
  const anchor = useMemo(
    () => ({ left: menu.screen.x, top: menu.screen.y, right: menu.screen.x, bottom: menu.screen.y }),
    [menu],
  );

  const close = () => {
    stage.setState({ menu: null });
    if (editor) focusCanvas(editor.frame);
  };
  const add = (type: NodeTypeInfo | undefined) => {
    if (!type || !editor) return;
    stage.setState({ menu: null });
    const id = editor.addFrom(menu, type);
    if (id === null) focusCanvas(editor.frame);
    else focusNode(editor.frame, id);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) setAt((chosen + step + found.length) % found.length);
    else if (event.key === 'Enter') add(found[chosen]?.type);
    else if (event.key === 'Escape' || event.key === 'Tab') close();
    else return;
    event.preventDefault();
  };

  return (
    <Floating
      className="add-menu"
      anchor={anchor}
      side="corner"
      role="dialog"
      aria-label="Add a node"
      onKeyDown={onKeyDown}
    >
      <Field
        query={query}
        list={list}
        active={found[chosen] ? `${list}-${chosen}` : undefined}
        change={(text) => {
          setQuery(text);
          setAt(0);
        }}
      />
      {menu.wire && (
        <div className="add-menu-hint">
          for the {menu.wire.side} {menu.wire.from.port}
        </div>
      )}
      <ul className="add-menu-list" role="listbox" id={list} aria-label="Node types">
        {found.map(({ type, why }, index) => (
          <Option
            key={type.type}
            id={`${list}-${index}`}
            type={type}
            why={why}
            chosen={index === chosen}
            hover={() => {
              setAt(index);
            }}
            pick={() => {
              add(type);
            }}
          />
        ))}
      </ul>
      {found.length === 0 && (
        <div className="add-menu-none">{offered.length === 0 ? 'No node type fits here.' : 'Nothing found.'}</div>
      )}
    </Floating>
  );
}

function Field({
  query,
  list,
  active,
  change,
}: {
  query: string;
  list: string;
  active: string | undefined;
  change: (text: string) => void;
}) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    field.current?.focus({ preventScroll: true });
  }, []);
  return (
    <input
      ref={field}
      className="add-menu-field"
      role="combobox"
      aria-label="Search nodes"
      aria-expanded="true"
      aria-controls={list}
      aria-activedescendant={active}
      autoComplete="off"
      spellCheck={false}
      placeholder="Search nodes"
      value={query}
      onChange={(event) => {
        change(event.target.value);
      }}
    />
  );
}

function Option({
  id,
  type,
  why,
  chosen,
  hover,
  pick,
}: {
  id: string;
  type: NodeTypeInfo;
  why: string;
  chosen: boolean;
  hover: () => void;
  pick: () => void;
}) {
  return (
    // The search field keeps the focus and handles the keys; see aria-activedescendant.
    // eslint-disable-next-line jsx-a11y/click-events-have-key-events
    <li
      id={id}
      className="add-menu-option"
      role="option"
      aria-selected={chosen}
      aria-label={type.type}
      ref={chosen ? intoView : undefined}
      onPointerMove={hover}
      onClick={pick}
    >
      <NodeIcon type={type} size={15} />
      <span className="add-menu-text">
        <span className="add-menu-name">{type.type}</span>
        <span className="add-menu-summary">{why || type.summary}</span>
      </span>
    </li>
  );
}

function intoView(element: HTMLElement | null): void {
  element?.scrollIntoView({ block: 'nearest' });
}
