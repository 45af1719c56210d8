/** What the colours of a comparison mean, with how many there are of each: by sign and word as well as by colour. */

import { CircleMinus, CirclePlus, Equal, Pencil, type LucideIcon } from 'lucide-react';
import { createElement } from 'react';

import type { Change } from '../../protocol';
import { useCanvas } from '../../state/hooks';

type Kind = Change['change'] | 'same';

const KINDS: readonly (readonly [Kind, LucideIcon])[] = [
  ['added', CirclePlus],
  ['removed', CircleMinus],
  ['changed', Pencil],
  ['same', Equal],
];

interface Props {
  changes: Readonly<Record<string, Change>>;
  /** What is compared: of the first document, and of the second. */
  names: readonly string[];
}

export function Legend({ changes, names }: Props) {
  const nodes = useCanvas((s) => s.doc.nodes);
  const [before = '', after = ''] = names;
  const counts: Record<Kind, number> = { added: 0, removed: 0, changed: 0, same: 0 };
  for (const id of Object.keys(nodes))
    counts[Object.hasOwn(changes, id) ? (changes[id]?.change ?? 'same') : 'same'] += 1;
  const where: Record<Kind, string> = {
    added: `only in ${after}`,
    removed: `only in ${before}`,
    changed: 'in both, with other settings',
    same: 'alike in both',
  };
  return (
    <ul className="legend" aria-label="Legend">
      {KINDS.map(([kind, icon]) => (
        <li key={kind} data-change={kind}>
          {createElement(icon, { size: 13, 'aria-hidden': true })}
          <strong>
            {counts[kind]} {kind}
          </strong>
          <span>{where[kind]}</span>
        </li>
      ))}
    </ul>
  );
}
