/** One canvas: its state, its link to Python, and what a person can do. Lives as long as the browser page. */

import { createStore, type StoreApi } from 'zustand/vanilla';

import { giveUp, record, redo, seal, undo, type Moved } from '../document/history';
import { markOf } from '../document/ids';
import { apply } from '../document/ops';
import { Channel, type Command } from '../link/channel';
import { BROWSER_TIMER, Pacing, type Timer } from '../link/pacing';
import type {
  Exported,
  ForecastSweep,
  Inbox,
  Listing,
  MakeEdit,
  Op,
  Outbox,
  SweepForecast,
  VersionRead,
  Versions,
} from '../protocol';
import { NO_SHELF, type Shelf } from './browser_storage';
import { INITIAL, NOTHING, reduce, still, type Selection, type State } from './state';

export class App {
  readonly store: StoreApi<State> = createStore(() => INITIAL);
  private readonly channel: Channel;
  private readonly pacing: Pacing;
  private readonly asked = new Map<number, Asked>();
  private lastRequest = 0;
  /** Edits that were on their way when the page was loaded anew. */
  private leftOver: MakeEdit[];
  private shelved = 0;
  private download: (exported: Exported) => void = () => undefined;

  constructor(
    private readonly client: string,
    timer: Timer = BROWSER_TIMER,
    private readonly shelf: Shelf = NO_SHELF,
  ) {
    this.leftOver = shelf.read();
    this.channel = new Channel(client);
    this.pacing = new Pacing(this.channel, timer);
    this.pacing.onStalled = (stalled) => {
      if (stalled !== this.state.stalled) this.store.setState({ stalled });
    };
  }

  get state(): State {
    return this.store.getState();
  }

  /** What sets ids made here apart from those of others; empty while nobody else can be making some. */
  get mark(): string {
    const { others, stalled } = this.state;
    return others > 0 || stalled ? markOf(this.client) : '';
  }

  // --- the link ---------------------------------------------------------------------------------

  attach(send: ((outbox: Outbox) => void) | null): void {
    this.pacing.attach(send);
  }

  receive(inbox: Inbox): void {
    const { notices, anew } = this.channel.receive(inbox);
    if (anew) this.sayAgain();
    let next = this.state;
    for (const notice of notices) next = reduce(next, notice);
    if (next !== this.state) this.store.setState(next, true);
    for (const notice of notices) {
      if ('request' in notice) this.answered(notice);
      if (notice.type === 'exported') this.download(notice);
    }
    this.watch();
    this.shelve();
    this.pacing.received();
  }

  /** A new session knows nothing of this page: what it should is said anew. */
  private sayAgain(): void {
    // Before the hello, so that the document that comes back holds them. Python knows those it has by their ids.
    for (const edit of this.leftOver) this.pacing.say(edit);
    this.leftOver = [];
    this.pacing.say({ type: 'hello', document: this.state.document });
    if (this.watched !== null) this.pacing.say({ type: 'watch', node: this.watched });
    for (const { question } of this.asked.values()) this.pacing.say(question);
    // The wish to run went with the old session.
    if (this.state.starting) this.store.setState({ starting: false });
  }

  /** What to do with text that Python made for a download. */
  onExported(download: (exported: Exported) => void): void {
    this.download = download;
  }

  private answered(answer: Answer): void {
    this.asked.get(answer.request)?.answer(answer);
    this.asked.delete(answer.request);
  }

  /** Ask something that has one answer; asked again when the connection is lost meanwhile. */
  private ask<T extends Answer['type']>(type: T, question: Question): Promise<Extract<Answer, { type: T }>> {
    this.lastRequest += 1;
    const request = this.lastRequest;
    return new Promise((resolve) => {
      const answer = (found: Answer) => {
        if (found.type === type) resolve(found as Extract<Answer, { type: T }>);
      };
      this.asked.set(request, { question: { ...question, request }, answer });
      this.pacing.say({ ...question, request });
    });
  }

  say(command: Command): void {
    this.pacing.say(command);
    if (command.type === 'run' || command.type === 'resume') this.store.setState({ starting: true });
    const opening = openingOf(command, this.state.document);
    if (opening !== null) this.store.setState({ opening });
  }

  // --- editing ----------------------------------------------------------------------------------

  /** Make an edit: shown at once, sent to Python, one step of undo. Edits with the same `group` in a row are one step. */
  edit(label: string, ops: Op[], group: string | null = null): void {
    if (ops.length === 0 || this.state.document === null) return;
    const { doc, history } = this.state;
    this.make(ops);
    this.store.setState({ history: record(history, doc, label, ops, group) });
  }

  /** Typing into a field has ended; with `group`, only if edits of that group are still what is being done. */
  seal(group: string | null = null): void {
    if (group !== null && this.state.history.done.at(-1)?.group !== group) return;
    const history = seal(this.state.history);
    if (history !== this.state.history) this.store.setState({ history });
  }

  undo(): string | null {
    return this.travel(undo(this.state.history, this.state.doc));
  }

  redo(): string | null {
    return this.travel(redo(this.state.history, this.state.doc));
  }

  /** What is being typed is given up; with edits after it, it stays. */
  giveUp(group: string): void {
    this.travel(giveUp(this.state.history, group));
  }

  private travel(moved: Moved | null): string | null {
    if (!moved) return null;
    this.make(moved.ops);
    this.store.setState({ history: moved.history });
    return moved.label;
  }

  private make(ops: Op[]): void {
    const { document, doc, selection } = this.state;
    if (document === null) return;
    const edit = `${this.channel.client}-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`;
    const next = apply(doc, ops);
    const replaced = this.pacing.say({ type: 'edit', document, edit, ops });
    const pending = [...this.state.pending.filter((other) => other.edit !== replaced?.edit), { edit, ops }];
    this.store.setState({ doc: next, pending, selection: still(selection, next) });
    this.shelve();
    this.watch();
  }

  /** Keep what Python has not taken where a reload finds it. */
  private shelve(): void {
    const { edits } = this.channel;
    if (edits.length === 0 && this.shelved === 0) return;
    this.shelved = edits.length;
    this.shelf.write(edits);
  }

  // --- looking ----------------------------------------------------------------------------------

  private watched: string | null = null;
  private watchedPlace: string | null = null;

  /** Choose nodes and wires. The log of a single chosen node is streamed. */
  select(selection: Selection): void {
    const before = this.state.selection;
    const same = sameItems(before.nodes, selection.nodes) && sameItems(before.edges, selection.edges);
    if (same && sameItems(before.annotations ?? [], selection.annotations ?? [])) return;
    this.store.setState({ selection });
    this.watch();
  }

  /** Ask for the log of the single chosen node; the selection also changes with the document. */
  private watch(): void {
    const { nodes } = this.state.selection;
    const node = nodes.length === 1 ? (nodes[0] ?? null) : null;
    const place = node === null ? null : `${this.state.document ?? ''}/${node}`;
    if (place === this.watchedPlace) return;
    this.watchedPlace = place;
    this.watched = node;
    if (this.state.log) this.store.setState({ log: null });
    this.pacing.say({ type: 'watch', node });
  }

  /** Take the person to a node, and to one of its fields. */
  goTo(node: string | null, parameter: string | null = null): void {
    this.select(node === null ? NOTHING : { nodes: [node], edges: [] });
    this.store.setState({ destination: { n: (this.state.destination?.n ?? 0) + 1, node, parameter } });
  }

  dismiss(toast: number): void {
    this.store.setState({ toasts: this.state.toasts.filter(({ id }) => id !== toast) });
  }

  /** Show a message that comes from here, as Python sends one with `Message`. */
  notify(level: 'info' | 'success' | 'warning' | 'error', text: string, hint = ''): void {
    this.store.setState(reduce(this.state, { type: 'message', level, text, hint, node: null, parameter: null }), true);
  }

  /** List a folder; null lists where one may start. */
  browse(path: string | null): Promise<Listing> {
    return this.ask('listing', { type: 'browse', path });
  }

  /** What each save of the document wrote, the newest first. */
  versions(document: string): Promise<Versions> {
    return this.ask('versions', { type: 'list-versions', document });
  }

  readVersion(document: string, version: string): Promise<VersionRead> {
    return this.ask('version', { type: 'read-version', document, version });
  }

  /** What a sweep would run. Only the newest of such questions is answered: Python passes the others by. */
  forecastSweep(question: Omit<ForecastSweep, 'request'>): Promise<SweepForecast> {
    for (const [request, asked] of this.asked) if (asked.question.type === question.type) this.asked.delete(request);
    return this.ask('sweep-forecast', question);
  }
}

type Answer = Listing | Versions | VersionRead | SweepForecast;
type Asking = Extract<Command, { request: number }>;
type Question = Asking extends infer Each ? (Each extends Asking ? Omit<Each, 'request'> : never) : never;

interface Asked {
  readonly question: Asking;
  readonly answer: (found: Answer) => void;
}

/** What is said until the document is there. */
function openingOf(command: Command, shown: string | null): string | null {
  switch (command.type) {
    case 'import':
      return `Importing ${command.name}…`;
    case 'open':
    case 'new':
      return 'Opening…';
    case 'duplicate':
      return 'Copying…';
    case 'delete':
      // Another one is shown in its place.
      return command.document === shown ? 'Deleting…' : null;
    default:
      return null;
  }
}

function sameItems(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
