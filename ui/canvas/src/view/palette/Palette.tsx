/** The catalogue beside the canvas: search it, drag from it, read what a node does. */

import { PanelLeftClose, PanelLeftOpen, Search } from 'lucide-react';
import { useMemo, useRef, useState, type KeyboardEvent } from 'react';

import { byCategory, findTypes } from '../../rules/search';
import { useCanvas } from '../../state/hooks';
import { showPanel, usePanels } from '../../state/panels';
import { categoryStyle } from '../parts/NodeIcon';
import { CatalogProblems } from './CatalogProblems';
import { PaletteItem } from './PaletteItem';

export function Palette() {
  const open = usePanels((s) => s.palette);
  return open ? <OpenPalette /> : <Toggle open={false} />;
}

function OpenPalette() {
  const types = useCanvas((s) => s.types);
  const ready = useCanvas((s) => s.welcome !== null);
  const [query, setQuery] = useState('');
  const list = useRef<HTMLDivElement>(null);
  const groups = useMemo(() => {
    const found = findTypes(Object.values(types), query);
    // A search puts the best first, whatever its category.
    return query.trim() === '' ? byCategory(found) : [['', found] as const].filter(() => found.length > 0);
  }, [types, query]);

  /** Arrow keys go through the list, from the search field into it and back. */
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const items = [...(list.current?.querySelectorAll<HTMLElement>('.palette-item') ?? [])];
    const at = items.findIndex((item) => item.matches(':focus'));
    if (at < 0 && step < 0) return;
    event.preventDefault();
    const field = list.current?.parentElement?.querySelector<HTMLElement>('.palette-search input');
    const next = at + step < 0 ? field : items[at + step];
    next?.focus();
  };

  return (
    // The keys here only move the focus among buttons that are reachable by Tab as well.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <aside className="palette" aria-label="Nodes" onKeyDown={onKeyDown}>
      <div className="palette-head">
        <h2>Nodes</h2>
        <Toggle open />
      </div>
      <div className="palette-search">
        <Search size={14} aria-hidden="true" />
        <input
          type="search"
          aria-label="Search nodes"
          placeholder="Name or purpose"
          autoComplete="off"
          spellCheck={false}
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Escape' && query !== '') {
              event.stopPropagation();
              setQuery('');
            }
          }}
        />
      </div>
      <div className="palette-list" ref={list}>
        {groups.map(([category, members]) => (
          <section key={category} aria-label={category === '' ? 'Found' : category}>
            {category !== '' && <h3 style={members[0] && categoryStyle(members[0].type)}>{category}</h3>}
            <ul>
              {members.map((each) => (
                <li key={each.type.type}>
                  <PaletteItem found={each} />
                </li>
              ))}
            </ul>
          </section>
        ))}
        {ready && groups.length === 0 && (
          <p className="palette-none">{query.trim() === '' ? 'No nodes are installed.' : 'Nothing found.'}</p>
        )}
      </div>
      <CatalogProblems />
    </aside>
  );
}

function Toggle({ open }: { open: boolean }) {
  const button = (
    <button
      type="button"
      className="palette-toggle"
      aria-label={open ? 'Hide nodes' : 'Show nodes'}
      title={open ? 'Hide nodes' : 'Show nodes'}
      aria-expanded={open}
      onClick={() => {
        showPanel('palette', !open);
      }}
    >
      {open ? <PanelLeftClose size={15} /> : <PanelLeftOpen size={15} />}
    </button>
  );
  return open ? button : <div className="palette-closed">{button}</div>;
}
