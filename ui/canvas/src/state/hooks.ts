/** How views read the state and the time, and reach what a person can do. */

import { createContext, useContext, useEffect, useState } from 'react';
import { useStore } from 'zustand';

import type { App } from './app';
import type { State } from './state';

const TICK_MS = 1000;

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

/** Whether there is something that the pipeline's file does not hold. An edit on its way counts already. */
export function useUnsaved(): boolean {
  return useCanvas(
    ({ file, pending }) => pending.length > 0 || (file !== null && (file.dirty || file.disk !== 'same')),
  );
}

/** Whether the pipeline is a copy of a template, or new, and nothing was done with it yet. */
export function useUntouched(): boolean {
  return useCanvas(
    ({ file, rev, pending, run, starting }) =>
      file?.disk === 'new' && rev === 0 && pending.length === 0 && run === null && !starting,
  );
}

/** Seconds since the epoch; new every second while `ticking`. */
export function useNow(ticking: boolean): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!ticking) return undefined;
    const tick = () => {
      setNow(Date.now() / 1000);
    };
    tick();
    const id = setInterval(tick, TICK_MS);
    return () => {
      clearInterval(id);
    };
  }, [ticking]);
  return now;
}
