/** Finding node types and commands by what a person types. */

import type { NodeTypeInfo } from '../protocol';

/** A node type that answers a search; `why` says by what, where it is not its name: `Parameter: Flips`. */
export interface Found {
  readonly type: NodeTypeInfo;
  readonly why: string;
}

/** How well `text` answers `query`: 0 not at all; a word's beginning counts more than letters in order. */
export function score(query: string, text: string): number {
  const wanted = folded(query.trim());
  if (wanted === '') return 1;
  const hay = folded(text);
  if (hay === wanted) return 100;
  if (hay.startsWith(wanted)) return 80;
  const words = folded(text.replace(/([a-z0-9])([A-Z])/g, '$1 $2'));
  if (`${words} ${hay}`.split(BETWEEN_WORDS).some((word) => word.startsWith(wanted))) return WORD;
  if (hay.includes(wanted)) return 40;
  const parts = wanted.split(/\s+/);
  if (parts.length > 1 && parts.every((part) => words.includes(part))) return ALL_PARTS;
  return inOrder(wanted, hay) ? 10 : 0;
}

const WORD = 60;
const ALL_PARTS = 30;
const BETWEEN_WORDS = /[^\p{L}\p{N}]+/u;
/** Less is in nearly every text. */
const LETTERS_FOR_TEXTS = 3;
/** Letters of a sentence before the word that was found. */
const SHOWN_BEFORE = 18;

/** Small letters, with one spelling for normalise and normalize. */
function folded(text: string): string {
  return text.toLowerCase().replaceAll('z', 's');
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

/** The node types that answer `query`, best first; all of them as they come, which is a pipeline's order, for none. */
export function findTypes(types: Iterable<NodeTypeInfo>, query: string): Found[] {
  if (query.trim() === '') return [...types].map((type) => ({ type, why: '' }));
  return [...types]
    .map((type) => ({ type, ...best(type, query) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points);
}

interface Reason {
  readonly points: number;
  readonly why: string;
}

function best(type: NodeTypeInfo, query: string): Reason {
  const reasons = [{ points: score(query, type.type), why: '' }, ...reasonsOf(type, query)];
  return reasons.reduce((a, b) => (b.points > a.points ? b : a));
}

/** What a node type is found by beside its name, the most telling first. */
function* reasonsOf(type: NodeTypeInfo, query: string): Iterable<Reason> {
  if (score(query, type.category) >= WORD) yield { points: 29, why: `Category: ${type.category}` };
  for (const word of type.keywords) if (score(query, word) >= ALL_PARTS) yield { points: 25, why: `For: ${word}` };
  for (const { name, title, help } of type.fields) {
    if (Math.max(score(query, title), score(query, name)) >= WORD) yield { points: 22, why: `Parameter: ${title}` };
    else if (isIn(help, query)) yield { points: 12, why: `Parameter: ${title}` };
  }
  if (score(query, type.summary) >= 40) yield { points: 15, why: sentenceWith(type.summary, query) };
  if (isIn(type.description, query)) yield { points: 11, why: sentenceWith(type.description, query) };
}

/** Whether a word of the text begins so. */
function isIn(text: string, query: string): boolean {
  return query.trim().length >= LETTERS_FOR_TEXTS && score(query, text) >= WORD;
}

/** The sentence with the word that was found, from a little before it: a line of the palette is short. */
function sentenceWith(text: string, query: string): string {
  const sentences = text.replaceAll('`', '').split(/(?<=[.!?:])\s+|\n\s*\n/);
  const found = (sentences.find((sentence) => score(query, sentence) >= WORD) ?? text).replace(/\s+/g, ' ');
  const at = folded(found).indexOf(folded(query.trim()));
  if (at <= SHOWN_BEFORE) return found;
  return `… ${found.slice(found.lastIndexOf(' ', at - SHOWN_BEFORE / 2) + 1)}`;
}

/** Node types by category, in the order in which they come. */
export function byCategory(found: Iterable<Found>): [string, Found[]][] {
  const groups = new Map<string, Found[]>();
  for (const each of found) groups.set(each.type.category, [...(groups.get(each.type.category) ?? []), each]);
  return [...groups];
}
