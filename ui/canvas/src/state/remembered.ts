/** Small preferences of this browser. Without storage (a private window may have none) they last as long as the page. */

const PREFIX = 'voxelflow.';

/** What was remembered under `name`, if it is of the same type as `otherwise`. */
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
