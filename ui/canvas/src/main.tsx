/**
 * The component that Streamlit mounts: the editor, or with the data of a picture a graph to look at. Its function runs again whenever the page's script has: the React tree
 * is made once a host element, and fed by a connection of its own, so nothing on the canvas is ever reset.
 */

import { StrictMode } from 'react';
import { createRoot, type Root } from 'react-dom/client';

import { Connection, openSocket } from './link/connection';
import { BROWSER_TIMER } from './link/pacing';
import type { Look, LookAt, Picture, Ticket } from './protocol';
import { App } from './state/app';
import { sendProfile } from './state/commands';
import { SESSION_SHELF } from './state/browser_storage';
import { AppContext } from './state/hooks';
import { completeAddress } from './view/parts/address';
import { showDatasets } from './view/look/LookFrame';
import { mountLook, mountPicture } from './view/picture/mount';
import { Studio } from './view/Studio';
import './view/styles/index.css';

interface Mounted {
  /** The editor's ticket, a graph, or datasets to look at within another page. */
  data: Ticket | Picture | Look | LookAt | null;
  parentElement: HTMLElement | ShadowRoot;
  setStateValue: (name: string, value: string) => void;
  setTriggerValue: (name: string, value: string) => void;
}

const roots = new WeakMap<Element, Root>();
/** Where the canvas was mounted last: an older one that is taken down ends nothing. */
let shown: Element | null = null;
/** One for the page: leaving for another page of the app and coming back finds everything as it was. */
let page: { app: App; connection: Connection } | null = null;
/** For the page's address. */
let nameDocument: (document: string) => void = () => undefined;

function thePage(): { app: App; connection: Connection } {
  if (page !== null) return page;
  const app = new App(crypto.getRandomValues(new Uint32Array(3)).join(''), undefined, SESSION_SHELF);
  const connection = new Connection(app, openSocket, BROWSER_TIMER);
  page = { app, connection };
  sendProfile(app);
  app.store.subscribe(({ document, stalled }, before) => {
    if (document !== null && document !== before.document) nameDocument(document);
    if (stalled && !before.stalled) connection.reopen();
  });
  return page;
}

export default function mount({ data, parentElement, setStateValue, setTriggerValue }: Mounted): () => void {
  const host = parentElement.querySelector('.vf-root');
  if (!host) throw new Error('The element .vf-root is missing: the page must mount the canvas with its html.');
  if (data && 'doc' in data) {
    return mountPicture(host, data, (node) => {
      setTriggerValue('node', node);
    });
  }
  if (data && 'view' in data) return mountLook(host, data);
  if (data && 'look' in data) return showDatasets(host, data);
  const { app, connection } = thePage();
  if (!roots.has(host)) {
    const root = createRoot(host);
    roots.set(host, root);
    root.render(
      <StrictMode>
        <AppContext value={app}>
          <Studio />
        </AppContext>
      </StrictMode>,
    );
  }
  nameDocument = (document) => {
    if (host.isConnected) completeAddress(document);
    setStateValue('document', document);
  };
  if (app.state.document !== null) completeAddress(app.state.document);
  shown = host;
  if (data) connection.use(data.ticket);
  return () => {
    // Runs before each new value too: only a host that has left the page is taken down.
    queueMicrotask(() => {
      if (host.isConnected) return;
      if (host === shown) connection.use(null);
      roots.get(host)?.unmount();
      roots.delete(host);
    });
  };
}
