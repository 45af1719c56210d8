/** Where edits that Python has not taken yet outlive a reload of the page: this tab's session storage. */

import type { MakeEdit } from '../protocol';

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
