/** Finding node types and commands by what a person types. */

import type { NodeTypeInfo } from '../protocol';

/** How well `text` answers `query`: 0 not at all; a word's beginning counts more than letters in order. */
export function score(query: string, text: string): number {
  const wanted = query.trim().toLowerCase();
  if (wanted === '') return 1;
  const hay = text.toLowerCase();
  if (hay === wanted) return 100;
  if (hay.startsWith(wanted)) return 80;
  const words = text.replace(/([a-z0-9])([A-Z])/g, '$1 $2').toLowerCase();
  if (words.split(/[\s_-]+/).some((word) => word.startsWith(wanted))) return 60;
  if (hay.includes(wanted)) return 40;
  const parts = wanted.split(/\s+/);
  if (parts.length > 1 && parts.every((part) => words.includes(part))) return 30;
  return inOrder(wanted, hay) ? 10 : 0;
}

function inOrder(letters: string, text: string): boolean {
  let from = 0;
  for (const letter of letters) {
    const at = text.indexOf(letter, from);
    if (at < 0) return false;
    from = at + 1;
  }
  return true;
}

/** The node types that answer `query`, best first; all of them, by name, for an empty one. */
export function findTypes(types: Iterable<NodeTypeInfo>, query: string): NodeTypeInfo[] {
  return [...types]
    .map((type) => {
      const byWord = Math.max(score(query, type.category) / 3, score(query, type.summary) >= 40 ? 15 : 0);
      return { type, points: Math.max(score(query, type.type), byWord) };
    })
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points || (a.type.type < b.type.type ? -1 : 1))
    .map(({ type }) => type);
}

/** Node types by category, in the order categories are worked through. */
export function byCategory(types: Iterable<NodeTypeInfo>): [string, NodeTypeInfo[]][] {
  const groups = new Map<string, NodeTypeInfo[]>();
  for (const type of types) groups.set(type.category, [...(groups.get(type.category) ?? []), type]);
  return [...groups].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

const USUAL_ORDER = ['Sources', 'Storage', 'Data', 'Training', 'Use'];

function rank(category: string): number {
  const at = USUAL_ORDER.indexOf(category);
  return at < 0 ? USUAL_ORDER.length : at;
}
