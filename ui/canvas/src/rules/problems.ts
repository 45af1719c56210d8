/** Problems by the place they belong to. */

import type { Problem } from '../protocol';

export type Severity = Problem['severity'];

const RANK: Record<Severity, number> = { error: 0, warning: 1, info: 2 };

export function ofNode(problems: readonly Problem[], node: string): Problem[] {
  return problems.filter((p) => p.node === node);
}

export function ofField(problems: readonly Problem[], node: string, parameter: string): Problem[] {
  return problems.filter((p) => p.node === node && p.parameter === parameter);
}

export function ofPort(problems: readonly Problem[], node: string, port: string): Problem[] {
  return problems.filter((p) => p.node === node && p.port === port);
}

/** The worst severity among the problems; null when there are none. */
export function worst(problems: readonly Problem[]): Severity | null {
  return problems.reduce<Severity | null>(
    (most, { severity }) => (most === null || RANK[severity] < RANK[most] ? severity : most),
    null,
  );
}

/** Errors first; inside a severity the order of the graph stays. */
export function sorted(problems: readonly Problem[]): Problem[] {
  return [...problems].sort((a, b) => RANK[a.severity] - RANK[b.severity]);
}

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
