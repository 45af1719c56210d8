/** Where a person is in a panel, which a volume or another panel takes the place of for a while. */

import { useLayoutEffect, type RefObject } from 'react';

import { own } from '../../document/own';
import type { Chosen } from './Choices';

export interface Place {
  readonly chosen: Chosen;
  /** Of a gallery: its shuffle, its channel, how many volumes it shows. */
  readonly seed: number;
  readonly channel: number;
  readonly shown: number;
  /** Of a table: its first row; of a gallery: its first volume, in the order that is chosen. */
  readonly offset: number;
  /** Where a volume was opened, in pixels; 0 once it was gone back to. */
  readonly scroll: number;
}

export type Move = (to: Partial<Place>) => void;

export const PAGE = 48;
/** Volumes of a gallery that are shown at a time; the others are on further pages. */
export const MOST = 192;
export const START: Place = { chosen: {}, seed: 0, channel: 0, shown: PAGE, offset: 0, scroll: 0 };

/** By the names of panels. */
export type Places = Readonly<Record<string, Place>>;

export function placeIn(places: Places, panel: string): Place {
  return own(places, panel) ?? START;
}

export function moved(places: Places, panel: string, to: Partial<Place>): Places {
  return { ...places, [panel]: { ...placeIn(places, panel), ...to } };
}

/** Another choice begins at its first volume, or row. */
export function choosing(chosen: Chosen): Partial<Place> {
  return { chosen, shown: PAGE, offset: 0 };
}

/** How far that is scrolled which `inside` is in, or is itself. */
export function scrollOf(inside: Element | null): number {
  return scroller(inside)?.scrollTop ?? 0;
}

/** Scrolls back to where a volume was opened, as soon as `inside` is there, with all that is to be scrolled. */
export function useScrollBack(inside: RefObject<Element | null>, { scroll }: Place, onMove: Move): void {
  useLayoutEffect(() => {
    const found = scroller(inside.current);
    if (scroll === 0 || !found) return;
    found.scrollTop = scroll;
    onMove({ scroll: 0 });
  });
}

/** Scrolls to the beginning of what `inside` is in. */
export function scrollToTop(inside: Element | null): void {
  scroller(inside)?.scrollTo(0, 0);
}

function scroller(inside: Element | null): Element | null {
  return inside?.closest('.look-table, .look-panel') ?? null;
}
