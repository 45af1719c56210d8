/**
 * The component that Streamlit mounts. Its function runs again with every value from Python: the React
 * tree is made once a host element and fed, never made anew, so nothing on the canvas is ever reset.
 */

import { StrictMode } from 'react';
import { createRoot, type Root } from 'react-dom/client';

import type { Inbox, Outbox } from './protocol';
import { App } from './state/app';
import { tellProfile } from './state/commands';
import { SESSION_SHELF } from './state/shelf';
import { AppContext } from './state/hooks';
import { Studio } from './view/Studio';
import './view/styles/index.css';

interface Mounted {
  data: Inbox | null;
  parentElement: HTMLElement | ShadowRoot;
  setStateValue: (name: string, value: Outbox) => void;
}

const roots = new WeakMap<Element, Root>();
/** One for the page: leaving for another page of the app and coming back finds everything as it was. */
let app: App | null = null;

function theApp(): App {
  if (app === null) {
    app = new App(crypto.getRandomValues(new Uint32Array(3)).join(''), undefined, undefined, SESSION_SHELF);
    tellProfile(app);
  }
  return app;
}

export default function mount({ data, parentElement, setStateValue }: Mounted): () => void {
  const host = parentElement.querySelector('.vf-root');
  if (!host) throw new Error('The element .vf-root is missing: the page must mount the canvas with its html.');
  const canvas = theApp();
  if (!roots.has(host)) {
    const root = createRoot(host);
    roots.set(host, root);
    root.render(
      <StrictMode>
        <AppContext value={canvas}>
          <Studio />
        </AppContext>
      </StrictMode>,
    );
  }
  canvas.attach((outbox) => {
    setStateValue('outbox', outbox);
  });
  if (data) canvas.receive(data);
  return () => {
    // Runs before each new value too: only a host that has left the page is taken down.
    queueMicrotask(() => {
      if (host.isConnected) return;
      canvas.attach(null);
      roots.get(host)?.unmount();
      roots.delete(host);
    });
  };
}
