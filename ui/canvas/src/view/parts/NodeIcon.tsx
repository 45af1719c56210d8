/** The icon of a node type in the colour of its category; both are declared in Python. */

import { CircleQuestionMark } from 'lucide-react';
import type { CSSProperties } from 'react';

import type { NodeTypeInfo } from '../../protocol';

/** `type` undefined: a node whose type is not installed. */
export function NodeIcon({ type, size }: { type: NodeTypeInfo | undefined; size: number }) {
  return (
    <span className="node-icon" aria-hidden="true" style={type && categoryStyle(type)}>
      {type ? <Drawn path={type.icon} size={size} /> : <CircleQuestionMark size={size} />}
    </span>
  );
}

function Drawn({ path, size }: { path: string; size: number }) {
  const round = { strokeWidth: 2, strokeLinecap: 'round', strokeLinejoin: 'round' } as const;
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" {...round}>
      <path d={path} />
    </svg>
  );
}

/** A style that sets `--category`, to be used by the style sheet; it follows light and dark. */
export function categoryStyle({ light, dark }: Pick<NodeTypeInfo, 'light' | 'dark'>): CSSProperties {
  return { '--category': `light-dark(${light}, ${dark})` } as CSSProperties;
}
