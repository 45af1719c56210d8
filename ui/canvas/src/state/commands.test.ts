import { beforeEach, describe, expect, test } from 'vitest';

import { TYPES } from '../arbitraries';
import { EMPTY } from '../document/ops';
import type { Command, Notice } from '../link/channel';
import type { Doc, FileState, Problem, RunInfo } from '../protocol';
import { EMPTY_SWEEP } from '../rules/sweep';
import { docNode, runInfo } from '../testing';
import { App } from './app';
import { chosenProfile, keepMine, look, run, save, startSweep, takeTheirs, sendProfile } from './commands';
import { closeDialog, keep, panels } from './panels';

const DOC: Doc = {
  ...EMPTY,
  nodes: { a: docNode(), b: docNode() },
  edges: { w: { source: 'a.out', target: 'b.in', order: 0 } },
};
const NO_PRICE = { price: null, currency: '', priced: '', stop_after: '', stop_at_cost: null };
const PROFILES = [
  { name: 'local', backend: 'embedded', description: '', ...NO_PRICE },
  { name: 'cluster', backend: 'spark', description: '', ...NO_PRICE },
];

const WELCOME: Notice = {
  type: 'welcome',
  types: [],
  datasets: [],
  problems: [],
  profiles: PROFILES,
  workspace: '',
  version: '',
  ran: true,
};

let app: App;
let said: Command[];

function hear(...notices: Notice[]): void {
  const posted = notices.map((notice, index) => ({ n: index + 1, notice }));
  app.receive({ session: `s${Math.random()}`, client: '', handled: 0, posted });
}

function show(doc: Doc, file: Partial<FileState> = {}, problems: Problem[] = [], newest: RunInfo | null = null): void {
  hear(
    { ...WELCOME },
    { type: 'opened', document: 'd', rev: 1, doc, edits: [] },
    { type: 'file', document: 'd', path: 'pipelines/d.json', dirty: false, disk: 'same', ...file },
    { type: 'checked', document: 'd', rev: 1, problems, previews: {}, views: {}, does: {}, listed: true },
    { type: 'run', document: 'd', run: newest },
  );
}

beforeEach(() => {
  closeDialog();
  panels.setState({ dock: null, profile: null });
  app = new App('me');
  said = [];
  app.say = (command) => said.push(command);
});

const dialog = () => panels.getState().dialog?.kind;

describe('save', () => {
  test('writes the file', () => {
    show(DOC, { dirty: true });
    save(app);
    expect(said).toEqual([{ type: 'save', document: 'd', overwrite: false }]);
  });

  test('asks for a name when there is no file', () => {
    show(DOC, { disk: 'new' });
    save(app);
    expect([dialog(), said]).toEqual(['save-as', []]);
  });

  test.each(['changed', 'deleted'] as const)('asks what to do when the file was %s by someone else', (disk) => {
    show(DOC, { disk });
    save(app);
    expect([dialog(), said]).toEqual(['overwrite', []]);
    keepMine(app);
    expect(said).toEqual([{ type: 'save', document: 'd', overwrite: true }]);
  });

  test('taking theirs asks first when there is something to lose', () => {
    show(DOC, { disk: 'changed', dirty: true });
    takeTheirs(app);
    expect([dialog(), said]).toEqual(['revert', []]);
    closeDialog();
    show(DOC, { disk: 'changed', dirty: false });
    takeTheirs(app);
    expect([dialog(), said]).toEqual([undefined, [{ type: 'revert', document: 'd' }]]);
  });
});

describe('run', () => {
  const error = (node: string | null, code = 'VF106'): Problem => ({
    ...{ code, severity: 'error', message: '', hint: '', node, port: null, parameter: null },
  });

  test('starts all of it with the first profile', () => {
    show(DOC);
    run(app);
    const all = { start: null, end: null, fresh: false, values: {}, limit: null };
    expect(said).toEqual([{ type: 'run', document: 'd', profile: 'local', ...all }]);
  });

  test('a sweep has a limit of its own, none until one is typed', () => {
    show(DOC);
    const sweep = { ...EMPTY_SWEEP, rows: [{ name: 'a.steps', text: '1,2' }], jobs: 2 };
    startSweep(app, 'b', sweep);
    startSweep(app, 'b', { ...sweep, limit: { after: ' 3h ', cost: '20' } });
    const all = { type: 'sweep', document: 'd', profile: 'local', end: 'b', values: { 'a.steps': '1,2' }, jobs: 2 };
    expect(said).toEqual([
      { ...all, search: null, limit: { stop_after: '', stop_at_cost: null } },
      { ...all, search: null, limit: { stop_after: '3h', stop_at_cost: 20 } },
    ]);
  });

  test('shows the problems instead when there are errors', () => {
    show(DOC, {}, [error('b')]);
    run(app);
    expect([panels.getState().dock, said]).toEqual(['problems', []]);
  });

  test('is not kept back by errors of nodes that it does not need', () => {
    show(DOC, {}, [error('b')]);
    run(app, { start: null, end: 'a', fresh: false });
    expect(said).toMatchObject([{ type: 'run', end: 'a' }]);
  });

  test('asks for parameters that have no value, which are errors only until then', () => {
    const doc = { ...DOC, parameters: { epochs: { value: null, help: '' } } };
    show(doc, {}, [error('a', 'VF205')]);
    run(app, { start: 'b', end: null, fresh: true });
    expect(said).toEqual([]);
    expect(panels.getState().dialog).toEqual({ kind: 'run', start: 'b', end: null, fresh: true });
  });

  test('is not started twice', () => {
    show(DOC, {}, [], runInfo());
    run(app);
    expect(said).toEqual([]);
    expect(app.state.toasts).toHaveLength(1);
  });

  test('takes the profile chosen last as long as it is there', () => {
    show(DOC);
    keep({ profile: 'cluster' });
    expect(chosenProfile(app)).toBe('cluster');
    keep({ profile: 'gone' });
    expect(chosenProfile(app)).toBe('local');
  });
});

describe('looking at data', () => {
  const session = 'looking';
  let heard = 0;
  const more = (...notices: Notice[]) => {
    app.receive({ session, client: '', handled: 0, posted: notices.map((notice) => ({ n: (heard += 1), notice })) });
  };
  const found = (views: Record<string, string>, listed: boolean) => {
    more({ type: 'checked', document: 'd', rev: 1, problems: [], previews: {}, views, does: {}, listed });
  };
  const toasts = () => app.state.toasts.map(({ text }) => text);

  beforeEach(() => {
    heard = 0;
    more({ ...WELCOME, types: Object.values(TYPES) }, { type: 'opened', document: 'd', rev: 1, doc: DOC, edits: [] });
    found({}, false);
    app.select({ nodes: ['a'], edges: [] });
  });

  test('opens once its folder has been listed', () => {
    look(app, 'a');
    expect([dialog(), toasts()]).toEqual([undefined, ['Its data is still being listed.']]);
    found({ 'a.out': 'key' }, true);
    expect(panels.getState().dialog).toMatchObject({ kind: 'look', port: 'out', views: [{ port: 'out', key: 'key' }] });
    closeDialog();
    found({ 'a.out': 'other' }, true);
    expect(dialog()).toBeUndefined();
  });

  test('says what is missing only when all folders have been listed', () => {
    look(app, 'a');
    found({}, false);
    expect(toasts()).toEqual(['Its data is still being listed.']);
    found({}, true);
    expect([dialog(), toasts().at(-1)]).toEqual([undefined, 'There is nothing to look at yet.']);
  });

  test('opens nothing when something else was chosen meanwhile', () => {
    look(app, 'a');
    app.select({ nodes: ['b'], edges: [] });
    found({ 'a.out': 'key' }, true);
    expect([dialog(), toasts()]).toEqual([undefined, ['Its data is still being listed.']]);
  });
});

describe('the profile', () => {
  const spoken = () => said.splice(0);

  test('is sent when it is not the usual one, when it changes, and anew in a new session', () => {
    const leave = sendProfile(app);
    show(DOC);
    expect(spoken()).toEqual([]);
    keep({ profile: 'cluster' });
    expect(spoken()).toEqual([{ type: 'choose', profile: 'cluster' }]);
    app.edit('Change', [{ path: ['nodes', 'a', 'title'], value: 'x', remove: false }]);
    expect(spoken()).toEqual([]);
    show(DOC);
    expect(spoken()).toEqual([{ type: 'choose', profile: 'cluster' }]);
    keep({ profile: 'local' });
    expect(spoken()).toEqual([{ type: 'choose', profile: 'local' }]);
    leave();
    keep({ profile: 'cluster' });
    expect(spoken()).toEqual([]);
  });

  test('that is gone counts as the usual one', () => {
    const leave = sendProfile(app);
    keep({ profile: 'moon' });
    show(DOC);
    expect(spoken()).toEqual([]);
    leave();
  });
});
