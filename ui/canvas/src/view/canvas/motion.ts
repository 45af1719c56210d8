/** Movement of the view: smooth, or at once for those who asked their system for calm. */

const SMOOTH_MS = 280;

export function smooth(): { duration: number } {
  return { duration: globalThis.matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : SMOOTH_MS };
}
