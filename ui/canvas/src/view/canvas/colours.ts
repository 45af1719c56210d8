/** Colours of dataset kinds, from tokens.css. */

import type { CSSProperties } from 'react';

/** A style that sets `--kind`, to be used by the style sheet; unknown kinds share a colour. */
export function kindStyle(kind: string): CSSProperties {
  const known = /^[A-Za-z0-9_-]+$/.test(kind) ? `var(--vf-kind-${kind}, var(--vf-kind-other))` : 'var(--vf-kind-other)';
  return { '--kind': known } as CSSProperties;
}
