/** What the browser keeps. Without storage (a private window may have none) it lasts as long as the page. */

import type { MakeEdit } from '../protocol';

const PREFIX = 'voxelflow.';

/** A small preference: what was remembered under `name`, if it is of the same type as `otherwise`. */
export function recall<T extends string | number | null>(name: string, otherwise: T): T {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(PREFIX + name) ?? 'null');
    const fits = typeof found === typeof otherwise || (otherwise === null && typeof found === 'string');
    return found !== null && fits ? (found as T) : otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name: string, value: string | number | null): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Nothing to be done, and nothing lost that matters.
  }
}

/** Where edits that Python has not taken yet outlive a reload of the page: this tab's session storage. */
export interface Shelf {
  read(): MakeEdit[];
  write(edits: readonly MakeEdit[]): void;
}

const KEY = 'voxelflow.unsent-edits';

export const SESSION_SHELF: Shelf = {
  read() {
    try {
      const found: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '[]');
      // Only this module writes there, and Python looks at every command before it believes it.
      return Array.isArray(found) ? (found as MakeEdit[]) : [];
    } catch {
      return [];
    }
  },
  write(edits) {
    try {
      if (edits.length === 0) sessionStorage.removeItem(KEY);
      else sessionStorage.setItem(KEY, JSON.stringify(edits));
    } catch {
      // Full, or a private window without storage: the edits are on their way all the same.
    }
  },
};

/** Keeps nothing. */
export const NO_SHELF: Shelf = { read: () => [], write: () => undefined };
