/** A log in blocks: blocks that are full never change, so that a view draws only the last one anew. */

import type { LogLine } from '../protocol';

const BLOCK = 100;

export interface Block {
  /** The number of its first line, counted from the log's beginning. */
  readonly first: number;
  readonly lines: readonly LogLine[];
}

/** `lines`, the first of which has the number `first`, cut at every hundredth of the whole log. */
export function blocks(lines: readonly LogLine[], first: number): Block[] {
  const out: Block[] = [];
  for (let from = 0; from < lines.length;) {
    const number = first + from;
    const to = from + BLOCK - (number % BLOCK);
    out.push({ first: number, lines: lines.slice(from, to) });
    from = to;
  }
  return out;
}

/** Whether two blocks show the same: lines are never changed, only added at the end and dropped at the beginning. */
export function sameBlock(a: Block, b: Block): boolean {
  return (
    a.first === b.first &&
    a.lines.length === b.lines.length &&
    a.lines[0] === b.lines[0] &&
    a.lines.at(-1) === b.lines.at(-1)
  );
}

/** The lines that hold `text`, whatever the case. */
export function matching(lines: readonly LogLine[], text: string): readonly LogLine[] {
  const wanted = text.trim().toLowerCase();
  return wanted === '' ? lines : lines.filter((line) => line.text.toLowerCase().includes(wanted));
}

/** The log as text, for the clipboard. */
export function asText(lines: readonly LogLine[]): string {
  return lines.map(({ text }) => text).join('\n');
}
