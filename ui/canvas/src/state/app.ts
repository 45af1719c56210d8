/** One canvas: its state, its link to Python, and what a person can do. Lives as long as the browser page. */

import { createStore, type StoreApi } from 'zustand/vanilla';

import { record, redo, seal, undo, type Moved } from '../document/history';
import { markOf } from '../document/ids';
import { apply } from '../document/ops';
import { Channel, type Command } from '../link/channel';
import { BROWSER_TIMER, Pacing, type Timer } from '../link/pacing';
import type { Exported, Inbox, Listing, MakeEdit, Op, Outbox } from '../protocol';
import { NO_SHELF, type Shelf } from './shelf';
import { INITIAL, NOTHING, reduce, still, type Selection, type State } from './state';

const LARGE = 4000;

export class App {
  readonly store: StoreApi<State> = createStore(() => INITIAL);
  private readonly channel: Channel;
  private readonly pacing: Pacing;
  private readonly asked = new Map<number, { path: string | null; answer: (listing: Listing) => void }>();
  private lastRequest = 0;
  /** Edits that were on their way when the page was loaded anew. */
  private leftOver: MakeEdit[];
  private shelved = 0;
  private download: (exported: Exported) => void = () => undefined;

  constructor(
    private readonly client: string,
    timer: Timer = BROWSER_TIMER,
    now: () => number = () => performance.now(),
    private readonly shelf: Shelf = NO_SHELF,
  ) {
    this.leftOver = shelf.read();
    this.channel = new Channel(client);
    this.pacing = new Pacing(this.channel, timer, now);
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
      if (notice.type === 'listing') this.answered(notice);
      if (notice.type === 'exported') this.download(notice);
    }
    this.watch();
    this.shelve();
    this.pacing.received(notices.length > 0 && JSON.stringify(notices).length > LARGE);
  }

  /** A new session knows nothing of this page: what it should is said anew. */
  private sayAgain(): void {
    // Before the hello, so that the document that comes back holds them. Python knows those it has by their ids.
    for (const edit of this.leftOver) this.pacing.say(edit);
    this.leftOver = [];
    this.pacing.say({ type: 'hello', document: this.state.document });
    if (this.watched !== null) this.pacing.say({ type: 'watch', node: this.watched });
    for (const [request, { path }] of this.asked) this.pacing.say({ type: 'browse', request, path });
    // The wish to run went with the old session.
    if (this.state.starting) this.store.setState({ starting: false });
  }

  /** What to do with text that Python made for a download. */
  onExported(download: (exported: Exported) => void): void {
    this.download = download;
  }

  private answered(listing: Listing): void {
    this.asked.get(listing.request)?.answer(listing);
    this.asked.delete(listing.request);
  }

  say(command: Command): void {
    this.pacing.say(command);
    if (command.type === 'run' || command.type === 'resume') this.store.setState({ starting: true });
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

  private travel(moved: Moved | null): string | null {
    if (!moved) return null;
    this.make(moved.ops);
    this.store.setState({ history: moved.history });
    return moved.label;
  }

  private make(ops: Op[]): void {
    const { document, doc, pending, selection } = this.state;
    if (document === null) return;
    const edit = `${this.channel.client}-${crypto.getRandomValues(new Uint32Array(2)).join('-')}`;
    const next = apply(doc, ops);
    this.store.setState({ doc: next, pending: [...pending, { edit, ops }], selection: still(selection, next) });
    this.pacing.say({ type: 'edit', document, edit, ops });
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
    if (sameItems(before.nodes, selection.nodes) && sameItems(before.edges, selection.edges)) return;
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

  /** Say something to the person from here, as Python does with `Told`. */
  tell(level: 'info' | 'success' | 'warning' | 'error', text: string, hint = ''): void {
    this.store.setState(reduce(this.state, { type: 'told', level, text, hint, node: null, parameter: null }), true);
  }

  /** List a folder that the workspace may use; null lists where one may start. */
  browse(path: string | null): Promise<Listing> {
    this.lastRequest += 1;
    const request = this.lastRequest;
    return new Promise((resolve) => {
      this.asked.set(request, { path, answer: resolve });
      this.pacing.say({ type: 'browse', request, path });
    });
  }
}

function sameItems(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
