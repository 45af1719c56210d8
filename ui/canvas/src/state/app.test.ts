import fc from 'fast-check';
import { beforeEach, describe, expect, test } from 'vitest';

import { canonical, deed, opsOf, type Deed } from '../arbitraries';
import { removeItems, setDescription, setParameter, setTitle } from '../document/edits';
import { apply, EMPTY, set } from '../document/ops';
import type { Command, Notice } from '../link/channel';
import { Clock, Counterpart, Handled } from '../link/counterpart';
import type { Doc, DocNode, MakeEdit, Outbox } from '../protocol';
import { shown } from '../rules/fields';
import { docNode } from '../testing';
import { App } from './app';
import { NO_SHELF, type Shelf } from './browser_storage';

/** A document that several tabs edit, as ui/build/shared_document.py: edits count once, in the order in which they come. */
class SharedDocument {
  rev = 1;
  edits: string[] = [];
  links: Counterpart[] = [];
  /** By chance an edit is refused whole, as one is that would leave no valid pipeline. */
  refuses: (edit: MakeEdit) => boolean = () => false;

  constructor(public doc: Doc) {}

  show(link: Counterpart): void {
    link.post({ type: 'opened', document: 'd', rev: this.rev, doc: this.doc, edits: [...this.edits] });
  }

  edit(from: Counterpart, command: MakeEdit): void {
    const { edit, ops } = command;
    if (this.edits.includes(edit)) return;
    this.edits.push(edit);
    if (this.refuses(command)) {
      this.show(from);
      return;
    }
    this.doc = apply(this.doc, ops);
    this.rev += 1;
    for (const link of this.links) link.post({ type: 'edited', document: 'd', rev: this.rev, edit, ops });
  }
}

/** A browser page and its link to the document. */
class Tab {
  readonly clock = new Clock();
  readonly app: App;
  readonly commands: Command[] = [];
  private link: Counterpart;
  /** What went out through the present connection. */
  private sent: Outbox[] = [];
  private connected = false;
  private sessions = 0;

  constructor(
    readonly client: string,
    private readonly shared: SharedDocument,
    private readonly handled: Handled,
    shelf: Shelf = NO_SHELF,
  ) {
    this.app = new App(client, this.clock, shelf);
    this.link = this.linked();
  }

  private linked(): Counterpart {
    this.sessions += 1;
    const link = new Counterpart(`${this.client} ${this.sessions}`, this.handled, (command) => {
      this.commands.push(command);
      if (command.type === 'hello') {
        this.shared.links.push(link);
        this.shared.show(link);
      }
      if (command.type === 'edit') this.shared.edit(link, command);
    });
    return link;
  }

  post(notice: Notice): void {
    this.link.post(notice);
  }

  /** The connection is lost, with what was on its way. */
  cut(): void {
    this.sent = [];
    this.connected = false;
    this.app.attach(null);
  }

  /** The server is there anew: another session, and nothing of what was posted. */
  restart(): void {
    this.cut();
    this.shared.links = this.shared.links.filter((other) => other !== this.link);
    this.link = this.linked();
  }

  out(): void {
    this.clock.pass(500);
    for (const outbox of this.sent) this.link.receive(outbox);
  }

  in(): void {
    this.app.receive(structuredClone(this.link.inbox()));
    if (this.connected) return;
    this.connected = true;
    this.app.attach((outbox) => this.sent.push(structuredClone(outbox)));
  }

  /** Until both ends have sent each other everything. */
  settle(): void {
    for (let round = 0; round < 6; round += 1) {
      this.in();
      this.clock.pass(3000);
      this.out();
    }
  }
}

const node = (type: string, params: DocNode['params'] = {}) => docNode({ type, params });

let shared: SharedDocument;
let handled: Handled;
let tab: Tab;

beforeEach(() => {
  shared = new SharedDocument({ ...EMPTY, nodes: { a: node('Source'), b: node('Pass') } });
  handled = new Handled();
  tab = new Tab('me', shared, handled);
  tab.settle();
});

describe('editing', () => {
  test('an edit shows at once, is sent once, and is one step of undo', () => {
    tab.app.edit('Rename', setTitle(tab.app.state.doc, 'a', 'Alpha'));
    expect(tab.app.state.doc.nodes.a?.title).toBe('Alpha');
    expect(shared.doc.nodes.a?.title).toBe('');
    expect(tab.app.state.pending).toHaveLength(1);
    tab.settle();
    expect(shared.doc.nodes.a?.title).toBe('Alpha');
    expect(tab.app.state.pending).toEqual([]);
    expect(tab.app.undo()).toBe('Rename');
    tab.settle();
    expect(shared.doc.nodes.a?.title).toBe('');
  });

  test('letters typed into one field are one step, until the field is left', () => {
    const { app } = tab;
    for (const value of [1, 12, 123]) app.edit('Set x', setParameter(app.state.doc, 'a', 'x', value), 'a.x');
    app.seal();
    for (const value of [1234, 12345]) app.edit('Set x', setParameter(app.state.doc, 'a', 'x', value), 'a.x');
    expect(app.state.history.done).toHaveLength(2);
    app.undo();
    expect(app.state.doc.nodes.a?.params).toEqual({ x: 123 });
    app.undo();
    expect(app.state.doc.nodes.a?.params).toEqual({});
    app.redo();
    app.redo();
    expect(app.state.doc.nodes.a?.params).toEqual({ x: 12345 });
  });

  test('an edit made just before a reload is not lost, and counts once', () => {
    let kept = '[]';
    const shelf: Shelf = {
      read: () => JSON.parse(kept) as MakeEdit[],
      write: (edits) => {
        kept = JSON.stringify(edits);
      },
    };
    const before = new Tab('first page', shared, handled, shelf);
    before.settle();
    before.app.edit('Rename', setTitle(before.app.state.doc, 'a', 'Alpha'));
    expect(shared.doc.nodes.a?.title).toBe('');
    const after = new Tab('the page anew', shared, handled, shelf);
    after.settle();
    expect(after.app.state.doc.nodes.a?.title).toBe('Alpha');
    expect(kept).toBe('[]');
    before.out(); // it had left the old page after all
    after.settle();
    expect(shared.rev).toBe(2);
    expect(after.app.state.doc).toEqual(shared.doc);
  });

  test.each([
    ['before', 0],
    ['after', 1],
  ])('undo of a delete keeps what another tab changed %s it came through', (_, first) => {
    const other = new Tab('them', shared, handled);
    other.settle();
    tab.app.edit('Delete', removeItems(tab.app.state.doc, ['a'], []));
    other.app.select({ nodes: ['a'], edges: [] });
    other.app.edit('Rename', setTitle(other.app.state.doc, 'a', 'Theirs'));
    for (const each of first === 0 ? [other, tab] : [tab, other]) each.out();
    tab.settle();
    other.settle();
    expect(tab.app.state.doc.nodes.a).toBeUndefined();
    expect(other.app.state.toasts.map(({ text }) => text)).toEqual(['Removed in another tab: Theirs']);
    tab.app.undo();
    tab.settle();
    other.settle();
    expect(shared.doc.nodes.a?.title).toBe('Theirs');
    expect(other.app.state.doc).toEqual(tab.app.state.doc);
  });

  test('what Python refuses is taken back', () => {
    shared.refuses = () => true;
    tab.app.edit('Rename', setTitle(tab.app.state.doc, 'a', 'Alpha'));
    tab.settle();
    expect(tab.app.state.doc.nodes.a?.title).toBe('');
    expect(tab.app.state.pending).toEqual([]);
  });

  test('what Python makes of an edit is what counts', () => {
    const ops = setTitle(tab.app.state.doc, 'a', 'Alpha');
    tab.app.edit('Rename', ops);
    const [pending] = tab.app.state.pending;
    tab.post({ type: 'edited', document: 'd', rev: 2, edit: pending?.edit ?? '', ops: [] });
    tab.in();
    expect(tab.app.state.doc.nodes.a?.title).toBe('');
    expect(tab.app.state.pending).toEqual([]);
  });

  test('without a document nothing can be edited', () => {
    const app = new App('new');
    app.edit('Rename', setTitle(shared.doc, 'a', 'Alpha'));
    expect(app.state.history.done).toEqual([]);
  });

  test('our own edit coming back changes no identity: nothing is drawn again', () => {
    tab.app.edit('Rename', setTitle(tab.app.state.doc, 'a', 'Alpha'));
    const { doc, selection } = tab.app.state;
    tab.settle();
    expect(tab.app.state.doc).toBe(doc);
    expect(tab.app.state.selection).toBe(selection);
  });
});

describe('the log that is streamed', () => {
  const watched = () =>
    tab.commands.filter(({ type }) => type === 'watch').map((c) => (c.type === 'watch' ? c.node : ''));

  test('follows the single chosen node', () => {
    tab.app.select({ nodes: ['a'], edges: [] });
    tab.app.select({ nodes: ['a'], edges: [] });
    tab.app.select({ nodes: ['a', 'b'], edges: [] });
    tab.app.select({ nodes: ['b'], edges: [] });
    tab.settle();
    expect(watched()).toEqual(['a', null, 'b']);
  });

  test('ends when the node goes, in whichever tab', () => {
    tab.app.select({ nodes: ['a'], edges: [] });
    tab.settle();
    shared.edit(new Counterpart('x', handled, () => undefined), {
      type: 'edit',
      document: 'd',
      edit: 'theirs',
      ops: [{ path: ['nodes', 'a'], value: null, remove: true }],
    });
    tab.settle();
    expect(tab.app.state.selection.nodes).toEqual([]);
    expect(watched()).toEqual(['a', null]);
  });

  test('is asked for again of a node with the same id in another document', () => {
    tab.app.select({ nodes: ['a'], edges: [] });
    tab.settle();
    tab.post({ type: 'opened', document: 'e', rev: 1, doc: { ...EMPTY, nodes: { a: node('Train') } }, edits: [] });
    tab.settle();
    tab.app.select({ nodes: ['a'], edges: [] });
    tab.settle();
    expect(watched()).toEqual(['a', null, 'a']);
  });

  test('is asked for again by a new session', () => {
    tab.app.select({ nodes: ['a'], edges: [] });
    tab.settle();
    tab.restart();
    tab.settle();
    expect(watched()).toEqual(['a', 'a']);
  });
});

test('undo of a removal brings back a whole number to the last digit: Python sends it as text', () => {
  const seed = '9007199254740993';
  tab.post({
    type: 'opened',
    document: 'd',
    rev: 9,
    doc: { ...EMPTY, nodes: { a: node('Split', { seed }) } },
    edits: [],
  });
  tab.settle();
  expect(shown(tab.app.state.doc.nodes.a?.params.seed)).toBe(seed);
  tab.app.edit('Remove', removeItems(tab.app.state.doc, ['a'], []));
  tab.app.undo();
  tab.settle();
  const sent = tab.commands.findLast((command) => command.type === 'edit');
  expect(sent?.ops).toMatchObject([{ path: ['nodes', 'a'], value: { params: { seed } } }]);
});

describe('undo after another pipeline was opened', () => {
  const described = (name: string): Doc => ({
    ...EMPTY,
    ...{ name, nodes: { a: node('Source', { folder: '${data}' }) } },
    parameters: { data: { value: `/${name}`, help: '' } },
  });
  const opened = (name: string, doc: Doc): Notice => ({ type: 'opened', document: name, rev: 1, doc, edits: [] });
  const setData = (value: string) => [set(['parameters', 'data'], { value, help: '' })];

  test('takes back what was done there, though both have the same nodes', () => {
    tab.post(opened('north', described('north')));
    tab.settle();
    tab.app.edit('Set data', setData('/north2'));
    tab.settle();
    tab.post(opened('south', described('south')));
    tab.settle();
    expect(tab.app.undo()).toBeNull();
    expect(tab.app.state.doc.parameters.data?.value).toBe('/south');
    tab.post(opened('north', { ...described('north'), parameters: { data: { value: '/north2', help: '' } } }));
    tab.settle();
    expect(tab.app.undo()).toBe('Set data');
    expect(tab.app.state.doc.parameters.data?.value).toBe('/north');
  });

  test.each(['open', 'delete'] as const)('takes back nothing in one that is alike: %s', (type) => {
    tab.post(opened('north', { ...EMPTY, name: 'north' }));
    tab.settle();
    tab.app.edit('Describe', [set(['description'], 'North.')]);
    tab.app.edit('Describe', [set(['description'], '')]);
    tab.app.say({ type, document: type === 'open' ? 'south' : 'north' });
    expect(tab.app.state.opening).not.toBeNull();
    tab.settle();
    tab.post(opened('south', { ...EMPTY, name: 'south' }));
    tab.settle();
    expect(tab.app.state.opening).toBeNull();
    expect(tab.app.undo()).toBeNull();
  });

  test('nothing is opened when another pipeline than the one shown is deleted', () => {
    tab.app.say({ type: 'delete', document: 'elsewhere' });
    expect(tab.app.state.opening).toBeNull();
  });
});

describe('looking and asking', () => {
  test('a folder that was asked for is asked for again when the session is lost', async () => {
    const answer = tab.app.browse('/data');
    tab.restart();
    tab.settle();
    const asked = tab.commands.filter(({ type }) => type === 'browse');
    expect(asked).toEqual([{ type: 'browse', request: 1, path: '/data' }]);
    const listing = {
      path: '/data',
      parent: null,
      entries: [],
      truncated: false,
      allowed: true,
      elsewhere: [],
      problem: '',
    };
    tab.post({ type: 'listing', request: 1, ...listing });
    tab.settle();
    expect(await answer).toMatchObject(listing);
  });

  test('what is imported is named until it is there, or why it is not', () => {
    tab.app.say({ type: 'import', name: 'large.json', text: '{}' });
    expect(tab.app.state.opening).toBe('Importing large.json…');
    tab.post({ type: 'message', level: 'error', text: 'no', hint: '', node: null, parameter: null });
    tab.settle();
    expect(tab.app.state.opening).toBeNull();
  });

  test('text for a download is handed on, and what that says is kept', () => {
    tab.app.onExported(({ name }) => {
      tab.app.notify('success', name);
    });
    tab.post({ type: 'exported', name: 'd.json', text: '{}', packed: false });
    tab.settle();
    expect(tab.app.state.toasts.map(({ text }) => text)).toEqual(['d.json']);
  });

  test('going to a place chooses the node and is new each time', () => {
    tab.app.goTo('a', 'x');
    const first = tab.app.state.destination;
    tab.app.goTo('a', 'x');
    expect(tab.app.state.selection.nodes).toEqual(['a']);
    expect(tab.app.state.destination).toEqual({ n: (first?.n ?? 0) + 1, node: 'a', parameter: 'x' });
  });

  test('a toast that is dismissed takes no later one with it', () => {
    tab.app.notify('info', 'one');
    tab.app.dismiss(1);
    tab.app.notify('info', 'two');
    tab.app.dismiss(1);
    expect(tab.app.state.toasts.map(({ text }) => text)).toEqual(['two']);
  });

  test('nothing getting through is reported, and the end of it', () => {
    tab.app.say({ type: 'recheck', document: 'd' });
    tab.clock.pass(5000);
    expect(tab.app.state.stalled).toBe(true);
    tab.settle();
    expect(tab.app.state.stalled).toBe(false);
  });

  test('a run that was asked for is forgotten with the session that was to start it', () => {
    const all = { start: null, end: null, fresh: false, values: {}, limit: null };
    tab.app.say({ type: 'run', document: 'd', profile: 'local', ...all });
    expect(tab.app.state.starting).toBe(true);
    tab.restart();
    tab.settle();
    expect(tab.app.state.starting).toBe(false);
    expect(tab.commands.some(({ type }) => type === 'run')).toBe(false);
  });
});

// --- two people, and everything that can go wrong ---------------------------------------------------

type Event =
  | { is: 'edit'; who: number; deed: Deed; typing: boolean }
  | { is: 'write'; who: number; text: string }
  | { is: 'undo' | 'redo' | 'out' | 'in' | 'cut' | 'restart'; who: number };

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ is: fc.constant('edit' as const), who: fc.nat(1), deed, typing: fc.boolean() }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ is: fc.constant('write' as const), who: fc.nat(1), text: fc.constantFrom('a', 'b', 'c') }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ is: fc.constantFrom('out' as const, 'in' as const), who: fc.nat(1) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      is: fc.constantFrom('undo' as const, 'redo' as const, 'cut' as const, 'restart' as const),
      who: fc.nat(1),
    }),
  },
);

function play(
  events: readonly Event[],
  refused: readonly boolean[],
  look: (app: App) => void = () => undefined,
): { shared: SharedDocument; tabs: Tab[] } {
  const shared = new SharedDocument(EMPTY);
  let count = 0;
  shared.refuses = () => refused[count++ % refused.length] ?? false;
  const memory = new Handled();
  const tabs = [new Tab('ann', shared, memory), new Tab('bob', shared, memory)];
  for (const each of tabs) each.settle();
  for (const step of events) {
    const at = tabs[step.who];
    if (!at) continue;
    const { app } = at;
    if (step.is === 'edit') app.edit('Edit', opsOf(app.state.doc, step.deed), step.typing ? 'typing' : null);
    else if (step.is === 'write') app.edit('Describe', setDescription(app.state.doc, step.text), 'description');
    else if (step.is === 'undo') app.undo();
    else if (step.is === 'redo') app.redo();
    else at[step.is]();
    look(app);
  }
  for (let round = 0; round < 2; round += 1) for (const each of tabs) each.settle();
  return { shared, tabs };
}

test('two tabs end with the document that Python holds, whatever is lost or cut off between them', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), fc.array(fc.boolean(), { maxLength: 4 }), (events, refused) => {
      const { shared, tabs } = play(events, [false, ...refused]);
      for (const { app } of tabs) {
        expect(app.state.pending).toEqual([]);
        expect(canonical(app.state.doc)).toBe(canonical(shared.doc));
        expect(canonical(app.state.confirmed)).toBe(canonical(shared.doc));
      }
      expect(new Set(shared.edits).size).toBe(shared.edits.length);
    }),
    { numRuns: 300 },
  );
});

test('what is shown is always what Python confirmed with our own edits on top', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 40 }), (events) => {
      play(events, [false, false, true], ({ state }) => {
        const rebuilt = state.pending.reduce((doc, { ops }) => apply(doc, ops), state.confirmed);
        expect(canonical(state.doc)).toBe(canonical(rebuilt));
      });
    }),
    { numRuns: 100 },
  );
});
