/** Undo and redo: a stack of steps, each with its inverse. One step is one action of the person. */

import type { Doc, DocEdge, JsonValue, Op } from '../protocol';
import { equal } from './difference';
import { changeId, renamePipelineParameter } from './edits';
import { edgesAt, end } from './ends';
import { own } from './own';
import { apply, compact, EMPTY, invert } from './ops';
import { references } from './references';

export interface Step {
  label: string;
  ops: Op[];
  inverse: Op[];
  /** Steps with the same group follow one another as one (typing into a field). */
  group: string | null;
  /** What the step only gave another name. */
  renamed?: Renamed | null;
  /** What others did to it under the name that it has lost, which they still saw. */
  late?: readonly Op[];
}

interface Renamed {
  readonly part: 'nodes' | 'parameters';
  readonly from: string;
  readonly to: string;
}

export interface History {
  readonly done: readonly Step[];
  readonly undone: readonly Step[];
  /** What could be redone before the last step, while that is still being typed and may be given up. */
  readonly forgotten?: readonly Step[];
}

export const NO_HISTORY: History = { done: [], undone: [] };

const KEPT = 500;

/**
 * Record `ops`, just made to `doc`. Gives the history unchanged when they change nothing, and as it was before the first
 * letter when what was typed has been deleted again.
 */
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
    const after = apply(doc, ops);
    if (equal(apply(after, joined.inverse), after)) return withoutLast(history);
    return { ...history, done: [...history.done.slice(0, -1), joined] };
  }
  const step: Step = { label, ops, inverse, group, renamed: renamedBy(doc, ops) };
  const forgotten = group === null ? [] : history.undone;
  return { done: [...seal(history).done, step].slice(-KEPT), undone: [], forgotten };
}

function withoutLast({ done, forgotten = [] }: History): History {
  return { done: done.slice(0, -1), undone: forgotten };
}

function renamedBy(doc: Doc, ops: readonly Op[]): Renamed | null {
  for (const part of ['nodes', 'parameters'] as const) {
    const whole = ops.filter(({ path }) => path.length === 2 && path[0] === part);
    const from = whole.find((op) => op.remove)?.path[1];
    const item: unknown = from === undefined ? undefined : own<unknown>(doc[part], from);
    const to = whole.find((op) => item !== undefined && !op.remove && op.value === item)?.path[1];
    if (from === undefined || to === undefined) continue;
    return isWaitedFor(doc, part, to) ? null : { part, from, to };
  }
  return null;
}

/** Whether something refers to the name already: it could not be told apart once there is such a thing. */
function isWaitedFor(doc: Doc, part: Renamed['part'], name: string): boolean {
  if (part === 'nodes') return edgesAt(doc, new Set([name])).length > 0;
  return Object.values(doc.nodes).some(({ params }) => Object.values(params).some((v) => references(v).includes(name)));
}

/** The ops that change a name as things are today: others may have changed what bears it, and what refers to it. */
function ofToday(doc: Doc, { part, from, to }: Renamed): Op[] {
  return part === 'nodes' ? changeId(doc, from, to) : renamePipelineParameter(doc, from, to);
}

/** Change a name, and make what others did under the new one; nothing when the name is not to be had: it is another's. */
function renaming(doc: Doc, renamed: Renamed, late: readonly Op[]): Op[] {
  const ops = ofToday(doc, renamed);
  return ops.length === 0 ? [] : [...ops, ...late];
}

/** A name that could not be changed is not changed the other way either: by then another thing may have it. */
function idle(step: Step): Step {
  return { ...step, ops: [], inverse: [], renamed: null, late: [] };
}

/** Typing has ended: the next change of the same field is a step of its own. */
export function seal(history: History): History {
  const last = history.done.at(-1);
  if (!last?.group) return history;
  return { done: [...history.done.slice(0, -1), { ...last, group: null }], undone: history.undone };
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
  const { renamed, late = [] } = last;
  const back = renamed && { part: renamed.part, from: renamed.to, to: renamed.from };
  const ops = back ? renaming(doc, back, late) : last.inverse;
  const redoOps = invert(doc, ops);
  const step: Step = { ...last, ops: redoOps.length ? redoOps : last.ops, group: null, late: [] };
  return {
    history: {
      done: history.done.slice(0, -1),
      undone: [...history.undone, back && ops.length === 0 ? idle(step) : step],
    },
    ops,
    label: last.label,
  };
}

/** Take back what is being typed as if it had never been: redo brings what it would have brought before. */
export function giveUp(history: History, group: string): Moved | null {
  const last = history.done.at(-1);
  if (last?.group !== group) return null;
  return { history: withoutLast(history), ops: last.inverse, label: last.label };
}

export function redo(history: History, doc: Doc): Moved | null {
  const step = history.undone.at(-1);
  if (!step) return null;
  const { renamed, late = [] } = step;
  const ops = renamed ? renaming(doc, renamed, late) : step.ops;
  const done: Step = renamed && ops.length === 0 ? idle(step) : { ...step, inverse: invert(doc, ops), late: [] };
  return {
    history: { done: [...history.done, done], undone: history.undone.slice(0, -1) },
    ops,
    label: step.label,
  };
}

/**
 * Someone else changed something inside what this tab has removed, or drew a wire to it: undo brings it back with that,
 * and so does redo of what made it. It happens when both act before they have heard of each other, and neither's work may
 * be lost.
 */
export function amend(history: History, doc: Doc, ops: readonly Op[]): History {
  return ops.reduce((current, op) => amendOne(current, doc, op), history);
}

function amendOne(history: History, doc: Doc, op: Op): History {
  const [top, id, ...inside] = op.path;
  if (top === undefined || id === undefined) return history;
  if (top === 'edges' && !op.remove && inside.length === 0) return amendWire(history, doc, op);
  if ((top !== 'nodes' && top !== 'annotations' && top !== 'parameters') || inside.length === 0) return history;
  if (own<unknown>(doc[top], id)) return history;
  return amendSteps(history, top, [id], op, (made) =>
    made.map((old) => (restores(old, top, id) ? changed(old, top, id, op) : old)),
  );
}

function amendWire(history: History, doc: Doc, op: Op): History {
  const { source, target } = op.value as unknown as DocEdge;
  const gone = [source, target].map((text) => end(text).node).filter((node) => !Object.hasOwn(doc.nodes, node));
  // Whichever step brings back the last of them makes the wire: before that it is made into nowhere, so not at all.
  return amendSteps(history, 'nodes', gone, op, (made) => [...made, op]);
}

/** Change, for each of what is gone, the first step on the way back that restores it, and the first on the way forth. */
function amendSteps(
  history: History,
  top: string,
  gone: readonly string[],
  op: Op,
  change: (made: Op[]) => Op[],
): History {
  const amended = (steps: readonly Step[], made: 'inverse' | 'ops'): Step[] => {
    const at = gone.map((id) => steps.findLastIndex((step) => step[made].some((each) => restores(each, top, id))));
    return steps.map((step, index) => {
      if (!at.includes(index)) return step;
      return step.renamed ? { ...step, late: [...(step.late ?? []), op] } : { ...step, [made]: change(step[made]) };
    });
  };
  const { done, undone, forgotten = [] } = history;
  return { done: amended(done, 'inverse'), undone: amended(undone, 'ops'), forgotten: amended(forgotten, 'ops') };
}

function restores({ path, remove }: Op, top: string, id: string): boolean {
  return !remove && path.length === 2 && path[0] === top && path[1] === id;
}

function changed(restoring: Op, top: 'nodes' | 'annotations' | 'parameters', id: string, op: Op): Op {
  const after = apply(apply(EMPTY, [restoring]), [op]);
  return { ...restoring, value: own<JsonValue>(after[top], id) ?? restoring.value };
}
