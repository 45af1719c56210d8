/** Undo and redo: a stack of steps, each with its inverse. One step is one action of the person. */

import type { Doc, JsonValue, Op } from '../protocol';
import { own } from './own';
import { apply, compact, EMPTY, invert } from './ops';

export interface Step {
  label: string;
  ops: Op[];
  inverse: Op[];
  /** Steps with the same group follow one another as one (typing into a field). */
  group: string | null;
}

export interface History {
  readonly done: readonly Step[];
  readonly undone: readonly Step[];
}

export const NO_HISTORY: History = { done: [], undone: [] };

const KEPT = 500;

/** Record `ops`, just made to `doc`. Gives the history unchanged when they change nothing. */
export function record(history: History, doc: Doc, label: string, ops: Op[], group: string | null = null): History {
  const inverse = invert(doc, ops);
  if (inverse.length === 0) return history;
  const last = history.done.at(-1);
  if (group !== null && last?.group === group) {
    const joined: Step = {
      label,
      group,
      ops: compact([...last.ops, ...ops]),
      // Backwards, the newest first: what a path held before the whole step comes last and counts.
      inverse: compact([...inverse, ...last.inverse]),
    };
    return { done: [...history.done.slice(0, -1), joined], undone: [] };
  }
  return { done: [...history.done, { label, ops, inverse, group }].slice(-KEPT), undone: [] };
}

/** Typing has ended: the next change of the same field is a step of its own. */
export function seal(history: History): History {
  const last = history.done.at(-1);
  if (!last?.group) return history;
  return { ...history, done: [...history.done.slice(0, -1), { ...last, group: null }] };
}

export interface Moved {
  history: History;
  ops: Op[];
  label: string;
}

/** Take the last step back. The inverse is taken anew, since another person may have changed the same place. */
export function undo(history: History, doc: Doc): Moved | null {
  const last = history.done.at(-1);
  if (!last) return null;
  const redoOps = invert(doc, last.inverse);
  const step: Step = { ...last, ops: redoOps.length ? redoOps : last.ops, group: null };
  return {
    history: { done: history.done.slice(0, -1), undone: [...history.undone, step] },
    ops: last.inverse,
    label: last.label,
  };
}

export function redo(history: History, doc: Doc): Moved | null {
  const step = history.undone.at(-1);
  if (!step) return null;
  const inverse = invert(doc, step.ops);
  return {
    history: { done: [...history.done, { ...step, inverse }], undone: history.undone.slice(0, -1) },
    ops: step.ops,
    label: step.label,
  };
}

/**
 * Someone else changed something inside a node or an annotation that this tab has removed: undo brings it back with that change. It
 * happens when both act before they have heard of each other, and neither's work may be lost.
 */
export function amend(history: History, doc: Doc, ops: readonly Op[]): History {
  return ops.reduce((current, op) => amendOne(current, doc, op), history);
}

function amendOne(history: History, doc: Doc, op: Op): History {
  const [top, id, ...inside] = op.path;
  if ((top !== 'nodes' && top !== 'annotations') || id === undefined || inside.length === 0) return history;
  if (own<unknown>(doc[top], id)) return history;
  const restores = ({ path, remove }: Op) => !remove && path.length === 2 && path[0] === top && path[1] === id;
  const at = history.done.findLastIndex((step) => step.inverse.some(restores));
  return {
    ...history,
    done: history.done.map((step, index) =>
      index === at
        ? { ...step, inverse: step.inverse.map((old) => (restores(old) ? changed(old, top, id, op) : old)) }
        : step,
    ),
  };
}

function changed(restoring: Op, top: 'nodes' | 'annotations', id: string, op: Op): Op {
  const after = apply(apply(EMPTY, [restoring]), [op]);
  return { ...restoring, value: own<JsonValue>(after[top], id) ?? restoring.value };
}
