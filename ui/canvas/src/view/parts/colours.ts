/** Colours of dataset kinds: each type brings its own with the catalogue. */

import type { CSSProperties } from 'react';

import type { DatasetTypeInfo } from '../../protocol';

/** A style that declares the colour of every kind, for all that is drawn below; it follows light and dark. */
export function kindColours(datasets: readonly DatasetTypeInfo[]): CSSProperties {
  return Object.fromEntries(
    datasets.map(({ kind, light, dark }) => [`--vf-kind-${kind}`, `light-dark(${light}, ${dark})`]),
  );
}

/** A style that sets `--kind`, to be used by the style sheet; unknown kinds share a colour. */
export function kindStyle(kind: string): CSSProperties {
  const known = /^[A-Za-z0-9_-]+$/.test(kind) ? `var(--vf-kind-${kind}, var(--vf-kind-other))` : 'var(--vf-kind-other)';
  return { '--kind': known } as CSSProperties;
}
