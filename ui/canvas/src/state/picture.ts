/** Whether the graph on the page is a picture: looked at, not edited. */

import { createContext, useContext } from 'react';

import type { Change } from '../protocol';

export interface Pictured {
  /** What differs between two documents, by node and by wire; null: the cards show the states of a run. */
  readonly changes: Readonly<Record<string, Change>> | null;
}

export const PictureContext = createContext<Pictured | null>(null);

/** Null on the canvas that is edited. */
export function usePicture(): Pictured | null {
  return useContext(PictureContext);
}
