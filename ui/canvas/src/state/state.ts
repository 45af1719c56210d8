/** Everything the canvas knows, and how each notice from Python changes it. Pure. */

import type {
  Doc,
  FileState,
  Library,
  LogLine,
  NodeStatus,
  NodeTypeInfo,
  Op,
  Opened,
  NodeForecast,
  Problem,
  RunInfo,
  Message,
  Welcome,
} from '../protocol';
import { amend, NO_HISTORY, seal, type History } from '../document/history';
import { apply, EMPTY } from '../document/ops';
import { own } from '../document/own';
import type { Notice } from '../link/channel';
import { isActive } from '../rules/lights';
import type { Types } from '../rules/wiring';

export interface Selection {
  readonly nodes: readonly string[];
  readonly edges: readonly string[];
  /** Frames and notes; without it none. */
  readonly annotations?: readonly string[];
}

export const NOTHING: Selection = { nodes: [], edges: [] };

/** An edit made here that Python has not confirmed yet. */
export interface Pending {
  readonly edit: string;
  readonly ops: readonly Op[];
}

export interface Toast extends Message {
  readonly id: number;
}

export interface Log {
  readonly run_id: string;
  readonly node: string;
  readonly lines: readonly LogLine[];
  /** The number of the first of `lines`: how many came before it and are no longer kept. */
  readonly first: number;
}

/** A place that a person asked to be taken to; `n` makes each asking a new one. */
export interface Destination {
  readonly n: number;
  readonly node: string | null;
  readonly parameter: string | null;
}

export interface State {
  readonly welcome: Welcome | null;
  readonly types: Types;
  readonly library: Library | null;
  readonly document: string | null;
  /** Counts the pieces of work that were shown: a document that was renamed is the same one. */
  readonly work: number;
  /** Counts what arrived that was not done here: it may take away what somebody is typing into. */
  readonly theirs: number;
  readonly rev: number;
  /** What Python has confirmed; `doc` is that with the pending edits on top, and what everything shows. */
  readonly confirmed: Doc;
  readonly pending: readonly Pending[];
  readonly doc: Doc;
  readonly history: History;
  /** Histories of other documents opened in this page, so that going back keeps undo. */
  readonly histories: Readonly<Record<string, History>>;
  readonly file: FileState | null;
  readonly problems: readonly Problem[];
  readonly previews: Readonly<Record<string, string>>;
  /** By `node.port`: keys of data that is there before a run and can be looked at. */
  readonly views: Readonly<Record<string, string>>;
  /** By node: what it does with its parameters, in a few words, where it says so. */
  readonly does: Readonly<Record<string, string>>;
  /** All folders have been listed: until then there may be more to look at. */
  readonly listed: boolean;
  readonly forecasts: Readonly<Record<string, NodeForecast>>;
  readonly run: RunInfo | null;
  readonly status: Readonly<Record<string, NodeStatus>>;
  readonly log: Log | null;
  readonly toasts: readonly Toast[];
  readonly others: number;
  readonly selection: Selection;
  readonly destination: Destination | null;
  /** How many toasts there were: the newest one's id. */
  readonly messages: number;
  /** A run was asked for and has not shown up yet. */
  readonly starting: boolean;
  /** A document was asked for and is not there yet: what to say meanwhile. */
  readonly opening: string | null;
  /** The run whose end this page has seen: one that had ended before is no news. */
  readonly finished: string | null;
  /** What is said gets no answer: it is kept and sent again. */
  readonly stalled: boolean;
}

/** Of a document that was just opened the server has said nothing yet, but for its content. */
const UNKNOWN = {
  file: null,
  problems: [],
  previews: {},
  views: {},
  does: {},
  listed: false,
  forecasts: {},
  run: null,
  status: {},
  log: null,
  others: 0,
  starting: false,
  opening: null,
  finished: null,
} satisfies Partial<State>;

export const INITIAL: State = {
  welcome: null,
  types: {},
  library: null,
  document: null,
  work: 0,
  theirs: 0,
  rev: 0,
  confirmed: EMPTY,
  pending: [],
  doc: EMPTY,
  history: NO_HISTORY,
  histories: {},
  ...UNKNOWN,
  toasts: [],
  selection: NOTHING,
  destination: null,
  messages: 0,
  stalled: false,
};

const LOG_LINES = 5000;
const TOASTS = 5;
/** Of a note's text, where it stands for the note. */
const LONGEST_NAME = 60;

/** The state after a notice. Notices about another document than the one shown change nothing. */
export function reduce(state: State, notice: Notice): State {
  switch (notice.type) {
    case 'welcome':
      return { ...state, welcome: notice, types: newest(notice.types) };
    case 'library':
      return { ...state, library: notice, histories: ofListed(state.histories, notice) };
    case 'opened':
      return opened(state, notice);
    case 'message':
      return withMessage(state, notice);
    case 'status':
      if (state.run?.run_id !== notice.run_id) return state;
      return { ...state, status: notice.whole ? notice.nodes : { ...state.status, ...notice.nodes } };
    case 'log':
      return logged(state, notice);
    case 'listing':
    case 'exported':
    case 'versions':
    case 'version':
    case 'sweep-forecast':
      return state;
    default:
      return notice.document === state.document ? ofDocument(state, notice) : state;
  }
}

/** All but that the pipeline is empty: the canvas says it itself, and nobody has done anything wrong. */
function worthSaying(problems: readonly Problem[]): readonly Problem[] {
  return problems.filter(({ code }) => code !== 'VF108');
}

type OfDocument = Extract<Notice, { type: 'edited' | 'file' | 'checked' | 'forecast' | 'run' | 'others' }>;

function ofDocument(state: State, notice: OfDocument): State {
  switch (notice.type) {
    case 'edited':
      return edited(state, notice.rev, notice.edit, notice.ops);
    case 'file':
      return { ...state, file: notice };
    case 'checked':
      return {
        ...state,
        problems: worthSaying(notice.problems),
        previews: notice.previews,
        views: notice.views,
        does: notice.does,
        listed: notice.listed,
      };
    case 'forecast':
      return { ...state, forecasts: notice.nodes };
    case 'run': {
      const same = state.run?.run_id === notice.run?.run_id;
      const starting = state.starting && same && !isActive(notice.run);
      const ends = same && isActive(state.run) && notice.run !== null && !isActive(notice.run);
      const finished = ends ? (notice.run?.run_id ?? null) : same && !isActive(notice.run) ? state.finished : null;
      const log = same ? state.log : null;
      return { ...state, run: notice.run, status: same ? state.status : {}, log, starting, finished };
    }
    case 'others':
      return { ...state, others: notice.count };
  }
}

function withMessage(state: State, notice: Message): State {
  const id = state.messages + 1;
  // A message says what stands in the way of a run: nothing is starting any more.
  const starting = state.starting && isPassing(notice);
  const opening = notice.level === 'error' ? null : state.opening;
  return { ...state, toasts: fewer([...state.toasts, { ...notice, id }]), messages: id, starting, opening };
}

/** No more than are shown. What goes by itself goes first, but the newest: bad news is to be read. */
function fewer(toasts: readonly Toast[]): readonly Toast[] {
  if (toasts.length <= TOASTS) return toasts;
  const passing = toasts.slice(0, -1).find(isPassing) ?? toasts[0];
  return toasts.filter((toast) => toast !== passing);
}

/** Whether a message goes by itself. */
export function isPassing({ level }: Message): boolean {
  return level === 'info' || level === 'success';
}

function newest(types: readonly NodeTypeInfo[]): Types {
  const out = new Map<string, NodeTypeInfo>();
  for (const type of types) {
    const known = out.get(type.type);
    if (!known || known.version < type.version) out.set(type.type, type);
  }
  return Object.fromEntries(out);
}

function opened(before: State, notice: Opened): State {
  const state = { ...before, theirs: before.theirs + 1 };
  const arrived = new Set(notice.edits);
  if (state.document === notice.document) {
    const pending = state.pending.filter(({ edit }) => !arrived.has(edit));
    const doc = withPending(notice.doc, pending);
    const selection = still(state.selection, doc);
    return { ...state, rev: notice.rev, confirmed: notice.doc, pending, doc, selection, opening: null };
  }
  const left = state.document === null ? {} : { [state.document]: seal(state.history) };
  const all = { ...state.histories, ...left };
  // The one that was shown may have just been deleted.
  const histories = state.library === null ? all : ofListed(all, state.library);
  // Renamed or saved under another name: the same work goes on, and so does its undo. Never in a document that was
  // asked for, however alike: one step of undo there would write the other document's values into it.
  // What is still on its way says nothing about that.
  const known = withPending(
    state.confirmed,
    state.pending.filter(({ edit }) => arrived.has(edit)),
  );
  const goesOn = state.opening === null && content(known) === content(notice.doc);
  // Renamed, it counts on, and takes what is on its way; a copy counts anew, and does not.
  const waiting = state.pending.filter(({ edit }) => !arrived.has(edit));
  const pending = goesOn && notice.rev > state.rev ? waiting : [];
  const doc = withPending(notice.doc, pending);
  return {
    ...state,
    document: notice.document,
    work: goesOn ? state.work : state.work + 1,
    rev: notice.rev,
    confirmed: notice.doc,
    pending,
    doc,
    history: own(histories, notice.document) ?? (goesOn ? state.history : NO_HISTORY),
    histories,
    ...UNKNOWN,
    selection: goesOn ? still(state.selection, doc) : NOTHING,
  };
}

/** All but the name, and but for how a file is written: keys are sorted there, and places counted anew. */
function content({ name: _, ...doc }: Doc): string {
  const { nodes, edges, annotations } = doc;
  const items = { nodes: placeless(nodes), edges: placeless(edges), annotations: placeless(annotations) };
  return JSON.stringify({ ...doc, ...items }, (_key, value: unknown) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)))
      : value,
  );
}

function placeless(items: Readonly<Record<string, { order: number }>>): object {
  return Object.fromEntries(Object.entries(items).map(([key, { order: _, ...item }]) => [key, item]));
}

/** Without those of documents that were renamed or deleted: another one may get such a name. */
function ofListed(histories: State['histories'], { pipelines }: Library): State['histories'] {
  const listed = new Set(pipelines.map(({ document }) => document));
  return Object.fromEntries(Object.entries(histories).filter(([document]) => listed.has(document)));
}

function edited(state: State, rev: number, edit: string, ops: readonly Op[]): State {
  if (rev <= state.rev) return state;
  const confirmed = apply(state.confirmed, ops);
  const pending = state.pending.filter((p) => p.edit !== edit);
  // Our oldest edit came back as it was sent: what is shown holds it already and keeps its identity.
  // Python may have refused it, in whole or in part: then what is shown must follow.
  const oldest = state.pending[0];
  const ours = oldest?.edit === edit && said(oldest.ops) === said(ops);
  if (ours) return { ...state, rev, confirmed, pending };
  const doc = withPending(confirmed, pending);
  const shown = { ...state, rev, confirmed, pending, doc, selection: still(state.selection, doc) };
  if (state.pending.some((p) => p.edit === edit)) return shown;
  const next = { ...shown, theirs: state.theirs + 1 };
  const gone = namesOfGone(state, next);
  const history = amend(state.history, doc, ops);
  return gone.length === 0 ? { ...next, history } : withMessage({ ...next, history }, removedByOthers(gone));
}

/** Ops as text. Python says of each what is exempt, also nothing. */
function said(ops: readonly Op[]): string {
  return JSON.stringify(ops.map(({ path, value, remove, exempt = [] }) => [path, value, remove, exempt]));
}

/** What was chosen and is no longer there. */
function namesOfGone({ doc, selection }: State, next: State): string[] {
  const nodes = selection.nodes.filter((id) => !Object.hasOwn(next.doc.nodes, id));
  const drawn = (selection.annotations ?? []).filter((id) => !Object.hasOwn(next.doc.annotations, id));
  return [
    ...nodes.map((id) => own(doc.nodes, id)?.title || id),
    ...drawn.map((id) => own(doc.annotations, id)?.text.trim().slice(0, LONGEST_NAME) || id),
  ];
}

/** What is selected must not vanish without a message. */
function removedByOthers(names: readonly string[]): Message {
  return {
    type: 'message',
    level: 'info',
    text: `Removed in another tab: ${names.join(', ')}`,
    hint: 'Undo there brings it back, with what you changed.',
    node: null,
    parameter: null,
  };
}

function withPending(doc: Doc, pending: readonly Pending[]): Doc {
  return pending.reduce((current, { ops }) => apply(current, ops), doc);
}

/** The selection without what is no longer there. */
export function still(selection: Selection, doc: Doc): Selection {
  const nodes = selection.nodes.filter((id) => Object.hasOwn(doc.nodes, id));
  const edges = selection.edges.filter((key) => Object.hasOwn(doc.edges, key));
  const drawn = selection.annotations ?? [];
  const annotations = drawn.filter((id) => Object.hasOwn(doc.annotations, id));
  const same = nodes.length === selection.nodes.length && edges.length === selection.edges.length;
  if (same && annotations.length === drawn.length) return selection;
  return selection.annotations ? { nodes, edges, annotations } : { nodes, edges };
}

function logged(state: State, notice: Extract<Notice, { type: 'log' }>): State {
  const goesOn = !notice.reset && state.log?.node === notice.node && state.log.run_id === notice.run_id;
  const before = goesOn ? state.log : null;
  const all = [...(before?.lines ?? []), ...notice.lines];
  const lines = all.slice(-LOG_LINES);
  const first = (before?.first ?? 0) + all.length - lines.length;
  return { ...state, log: { run_id: notice.run_id, node: notice.node, lines, first } };
}
