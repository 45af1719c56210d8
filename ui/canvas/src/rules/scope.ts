/** Which nodes a run covers, and what it would do with each: what the run dialog shows before anything starts. */

import { orderedNodes } from '../document/ops';
import { own } from '../document/own';
import { downstream, upstream } from '../document/reach';
import type { Doc, NodeForecast, Problem } from '../protocol';

export interface Part {
  /** Rerun this node and everything downstream, whatever is kept. */
  readonly start: string | null;
  /** Run only what this node needs, and the node. */
  readonly end: string | null;
  /** Ignore cached results. */
  readonly fresh: boolean;
}

export const EVERYTHING: Part = { start: null, end: null, fresh: false };

/** The nodes of a run, as the engine's plan chooses them; empty when `start` does not lead to `end`. */
export function wanted(doc: Doc, part: Part): Set<string> {
  const all = new Set(Object.keys(doc.nodes));
  const { start, end } = part;
  const needed = end === null ? all : upstream(doc, end);
  const before = new Set([...all].filter((id) => needed.has(id)));
  if (start === null) return before;
  const behind = [...downstream(doc, start)].filter((id) => before.has(id));
  return new Set(behind.flatMap((id) => [...upstream(doc, id)]).filter((id) => all.has(id)));
}

export interface Step {
  readonly node: string;
  readonly work: boolean;
  readonly reason: string;
}

/** What a run of `part` does with each of its nodes, in the order of the file; those `out` take no part. */
export function forecast(
  doc: Doc,
  forecasts: Readonly<Record<string, NodeForecast>>,
  part: Part,
  out: ReadonlySet<string> = new Set(),
): Step[] {
  const chosen = wanted(doc, part);
  const again = part.start === null ? new Set<string>() : downstream(doc, part.start);
  return orderedNodes(doc)
    .filter(([id]) => chosen.has(id) && !out.has(id))
    .map(([node]) => {
      const known = own(forecasts, node);
      if (part.fresh || again.has(node)) return { node, work: true, reason: 'asked for' };
      if (!known) return { node, work: true, reason: '' };
      return { node, work: !known.fresh, reason: known.reason };
    });
}

/** A pipeline parameter without a value: the run dialog can give it one, so that it stops no run. */
const NO_VALUE = 'VF205';

/** The errors that keep a run of `part` from starting. */
export function blocking(problems: readonly Problem[], doc: Doc, part: Part): Problem[] {
  const chosen = wanted(doc, part);
  return problems.filter(
    (p) => p.severity === 'error' && p.code !== NO_VALUE && (p.node === null || chosen.has(p.node)),
  );
}
