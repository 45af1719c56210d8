/** How views read the state and reach what a person can do. */

import { createContext, useContext } from 'react';
import { useStore } from 'zustand';

import type { App } from './app';
import type { State } from './state';

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error('No canvas here: wrap the view in an AppContext.');
  return app;
}

/** A part of the state; the view renders again only when that part changes. */
export function useCanvas<T>(select: (state: State) => T): T {
  return useStore(useApp().store, select);
}
