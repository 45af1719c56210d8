/** Puts a picture into the page, and brings it up to date whenever Python has drawn the page again. */

import { StrictMode } from 'react';
import { createRoot, type Root } from 'react-dom/client';

import { arranged, heaped } from '../../document/arrange';
import type { Doc, Look, Picture as Pictured, Welcome } from '../../protocol';
import { App } from '../../state/app';
import { AppContext } from '../../state/hooks';
import { reduce, still } from '../../state/state';
import { cardSizes } from '../canvas/size';
import { LookButton } from './LookButton';
import { Picture } from './Picture';

interface Mounted {
  readonly root: Root;
  /** Never attached to a connection: it holds what the cards show. */
  readonly app: App;
  /** Texts of what was drawn last: what is the same keeps its identity. */
  readonly drawn: Map<string, string>;
  chosen: string | null;
  picture: Pictured;
  choose: (node: string) => void;
}

const mounted = new WeakMap<Element, Mounted>();

export function mountPicture(host: Element, picture: Pictured, choose: (node: string) => void): () => void {
  let found = mounted.get(host);
  if (!found) {
    found = { root: createRoot(host), app: new App('picture'), drawn: new Map(), chosen: null, picture, choose };
    mounted.set(host, found);
  }
  show(found, picture, choose);
  const { root, app } = found;
  root.render(
    <StrictMode>
      <AppContext value={app}>
        <Picture
          picture={found.picture}
          choose={(node) => {
            select(app, node);
            mounted.get(host)?.choose(node);
          }}
        />
      </AppContext>
    </StrictMode>,
  );
  return () => {
    unmountLater(host, mounted);
  };
}

const buttons = new WeakMap<Element, { root: Root }>();

export function mountLook(host: Element, look: Look): () => void {
  const { root } = buttons.get(host) ?? { root: createRoot(host) };
  buttons.set(host, { root });
  root.render(
    <StrictMode>
      <LookButton look={look} />
    </StrictMode>,
  );
  return () => {
    unmountLater(host, buttons);
  };
}

/** Runs before each new value too: only a host that has left the page is taken down. */
function unmountLater(host: Element, roots: WeakMap<Element, { readonly root: Root }>): void {
  queueMicrotask(() => {
    if (host.isConnected) return;
    roots.get(host)?.root.unmount();
    roots.delete(host);
  });
}

function show(found: Mounted, picture: Pictured, choose: (node: string) => void): void {
  const { app, drawn } = found;
  const isNew = (name: keyof Pictured) => {
    const text = JSON.stringify(picture[name]);
    const same = drawn.get(name) === text;
    drawn.set(name, text);
    return !same;
  };
  const { picture: before } = found;
  found.choose = choose;
  found.picture = {
    ...picture,
    datasets: isNew('datasets') ? picture.datasets : before.datasets,
    changes: isNew('changes') ? picture.changes : before.changes,
    names: isNew('names') ? picture.names : before.names,
  };
  let state = app.state;
  if (isNew('types') || state.welcome === null) state = reduce(state, welcome(picture));
  if (isNew('doc')) {
    state = { ...state, document: 'picture', doc: picture.doc };
    const doc = placed(picture.doc, state);
    state = { ...state, doc, confirmed: doc, selection: still(state.selection, doc) };
  }
  state = { ...state, run: picture.run, status: picture.status };
  app.store.setState(state, true);
  // A timer of the page may still report the choice before a click.
  if (picture.chosen !== found.chosen) select(app, picture.chosen);
  found.chosen = picture.chosen;
}

/** Written by hand, without positions, all cards would lie on one heap. */
function placed(doc: Doc, state: Parameters<typeof cardSizes>[0]): Doc {
  if (!heaped(doc)) return doc;
  const places = arranged(doc, cardSizes(state));
  const nodes = Object.entries(doc.nodes).map(([id, node]) => [
    id,
    { ...node, position: places.get(id) ?? node.position },
  ]);
  return { ...doc, nodes: Object.fromEntries(nodes) as Doc['nodes'] };
}

function select(app: App, node: string | null): void {
  // Not by `app.select`, which would ask Python for a log.
  app.store.setState({ selection: { nodes: node === null ? [] : [node], edges: [] } });
}

function welcome({ types, datasets }: Pictured): Welcome {
  return { type: 'welcome', types, datasets, problems: [], profiles: [], workspace: '', version: '', ran: true };
}
