/** Problems by node, found once for each list of problems: every card asks for its own. */

import type { Problem } from '../protocol';

const NONE: readonly Problem[] = [];
const indexes = new WeakMap<readonly Problem[], ReadonlyMap<string, readonly Problem[]>>();

/** The problems of a node; the same list again while `problems` is the same. */
export function pinnedTo(problems: readonly Problem[], node: string): readonly Problem[] {
  let index = indexes.get(problems);
  if (!index) {
    const made = new Map<string, Problem[]>();
    for (const problem of problems) {
      if (problem.node === null) continue;
      const known = made.get(problem.node);
      if (known) known.push(problem);
      else made.set(problem.node, [problem]);
    }
    index = made;
    indexes.set(problems, index);
  }
  return index.get(node) ?? NONE;
}
