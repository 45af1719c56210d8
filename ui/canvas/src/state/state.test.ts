import { describe, expect, test } from 'vitest';

import { TYPES } from '../arbitraries';
import { apply, EMPTY, remove, set } from '../document/ops';
import type { Notice } from '../link/channel';
import type { Doc, DocParameter, LogLine, Message, NodeTypeInfo, RunInfo, Welcome } from '../protocol';
import { docNode, nodeForecast, nodeStatus, runInfo } from '../testing';
import { INITIAL, reduce, still, type State } from './state';

const DOC: Doc = { ...EMPTY, name: 'one', nodes: { a: docNode({ type: 'Source' }), b: docNode() } };
const RUN = runInfo({ run_id: 'r1' });
const STATUS = nodeStatus('running', { started: 1 });

function opened(document: string, doc: Doc = DOC, rev = 1): Notice {
  return { type: 'opened', document, rev, doc, edits: [] };
}

function after(...notices: Notice[]): State {
  return notices.reduce(reduce, INITIAL);
}

const line = (text: string): LogLine => ({ time: 1, level: 'info', text });

describe('notices of a document', () => {
  const others: Notice[] = [
    { type: 'edited', document: 'other', rev: 9, edit: 'x', ops: [set(['description'], 'theirs')] },
    { type: 'file', document: 'other', path: 'p', dirty: true, disk: 'changed' },
    {
      type: 'checked',
      document: 'other',
      rev: 9,
      problems: [],
      previews: { 'a.out': '1' },
      views: {},
      does: {},
      listed: true,
    },
    { type: 'forecast', document: 'other', rev: 9, nodes: { a: nodeForecast(true) } },
    { type: 'run', document: 'other', run: RUN },
    { type: 'others', document: 'other', count: 3 },
  ];

  test.each(others)('$type of another document changes nothing', (notice) => {
    const state = after(opened('one'));
    expect(reduce(state, notice)).toBe(state);
  });

  test.each(others)('$type of this document counts', (notice) => {
    const state = after(opened('one'));
    expect(reduce(state, { ...notice, document: 'one' } as Notice)).not.toEqual(state);
  });

  test('an edit that the document holds already is not made again', () => {
    const state = after(opened('one', { ...DOC, description: 'newest' }, 5));
    const edit: Notice = { type: 'edited', document: 'one', rev: 5, edit: 'x', ops: [set(['description'], 'old')] };
    expect(reduce(state, edit).doc.description).toBe('newest');
  });
});

test('the newest version of each node type counts, whatever the types are called', () => {
  const type = (name: string, version: number): NodeTypeInfo => ({ ...TYPES.Train!, type: name, version });
  const types = ['constructor', 'toString', 'Plain'].flatMap((name) => [type(name, 2), type(name, 1)]);
  const welcome: Welcome = {
    ...{ type: 'welcome', types, datasets: [], problems: [], profiles: [], workspace: '', version: '', ran: true },
  };
  const state = after(welcome);
  expect(Object.entries(state.types).map(([name, { version }]) => [name, version])).toEqual([
    ['constructor', 2],
    ['toString', 2],
    ['Plain', 2],
  ]);
});

test('errors stay when more messages come than are shown', () => {
  const message = (level: Message['level'], text: string): Notice => {
    return { type: 'message', level, text, hint: '', node: null, parameter: null };
  };
  const infos = Array.from({ length: 6 }, (_, n) => message('info', `info ${n}`));
  const state = after(message('error', 'lost'), ...infos, message('warning', 'careful'));
  expect(state.toasts.map(({ text }) => text)).toEqual(['lost', 'info 3', 'info 4', 'info 5', 'careful']);
  const errors = Array.from({ length: 7 }, (_, n) => message('error', `error ${n}`));
  expect(errors.reduce(reduce, state).toasts.map(({ text }) => text)).toEqual([2, 3, 4, 5, 6].map((n) => `error ${n}`));
});

test('a note that is chosen does not vanish without a word', () => {
  const box = { position: { x: 0, y: 0 }, width: 100, height: 100, order: 0 };
  const note = { kind: 'note', text: 'Why?', colour: 'amber', ...box } as const;
  const state = after(opened('one', { ...DOC, annotations: { note, other: { ...note, text: '' } } }));
  const chosen = { ...state, selection: { nodes: [], edges: [], annotations: ['note', 'other'] } };
  const ops = [remove(['annotations', 'note']), remove(['annotations', 'other'])];
  const next = reduce(chosen, { type: 'edited', document: 'one', rev: 2, edit: 'x', ops });
  expect(next.toasts.map(({ text }) => text)).toEqual(['Removed in another tab: Why?, other']);
});

test('what others do is told from what is done here, also where Python changes that', () => {
  const state = { ...after(opened('one')), pending: [{ edit: 'mine', ops: [set(['description'], 'mine')] }] };
  const edit = (name: string, text: string): Notice => {
    const ops = [{ ...set(['description'], text), exempt: [] }];
    return { type: 'edited', document: 'one', rev: 2, edit: name, ops };
  };
  const answered = reduce(state, edit('mine', 'mine'));
  expect([answered.theirs, answered.pending, answered.doc === state.doc]).toEqual([state.theirs, [], true]);
  expect(reduce(state, edit('mine', 'changed')).theirs).toBe(state.theirs);
  expect(reduce(state, edit('x', 'theirs')).theirs).toBe(state.theirs + 1);
  expect(reduce(state, opened('one', EMPTY, 3)).theirs).toBe(state.theirs + 1);
});

describe('another document', () => {
  test('comes with nothing of the one before', () => {
    const before = after(
      opened('one'),
      { type: 'run', document: 'one', run: RUN },
      { type: 'status', run_id: 'r1', whole: true, nodes: { a: STATUS } },
      { type: 'log', run_id: 'r1', node: 'a', reset: true, lines: [line('x')] },
    );
    const next = reduce({ ...before, selection: { nodes: ['a'], edges: [] }, starting: true }, opened('two', EMPTY));
    expect(next).toMatchObject({ run: null, status: {}, log: null, problems: [], others: 0, starting: false });
    expect(next.selection.nodes).toEqual([]);
  });

  test('has an undo of its own, found again on coming back', () => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const two = reduce({ ...after(opened('one')), history }, opened('two', EMPTY));
    expect(two.history.done).toEqual([]);
    expect(reduce(two, opened('one')).history).toEqual(history);
  });

  test('that was asked for has its own undo, however alike', () => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const one = { ...after(opened('one')), history, selection: { nodes: ['a'], edges: [] } };
    for (const doc of [DOC, EMPTY]) {
      const two = reduce({ ...one, doc, opening: 'Opening…' }, opened('two', doc));
      expect(two.history.done).toEqual([]);
      expect(two.selection.nodes).toEqual([]);
      expect(reduce({ ...two, opening: 'Opening…' }, opened('one', doc)).history).toEqual(history);
    }
  });

  test.each([
    ['parameters', { parameters: { data: { value: '/south', help: '' } } }],
    ['a description', { description: 'South.' }],
    ['looks', { ui: { grid: true } }],
  ])('with %s of its own is other work', (_, own) => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const one = { ...after(opened('one')), history };
    expect(reduce(one, opened('two', { ...DOC, ...own })).history.done).toEqual([]);
  });

  test('that looks the same now has still the undo that it had', () => {
    const step = (label: string) => ({ done: [{ label, ops: [], inverse: [], group: null }], undone: [] });
    const two = { ...after(opened('two', EMPTY)), history: step('of two') };
    const one = { ...reduce(two, opened('one')), history: step('of one') };
    expect(reduce({ ...one, doc: EMPTY }, opened('two', EMPTY)).history).toEqual(step('of two'));
  });

  test('that gets the name of one that is gone has nothing of its undo', () => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const two = reduce({ ...after(opened('one')), history }, opened('two', EMPTY));
    const info = { name: '', description: '', modified: null, unsaved: true, problem: '' };
    const listed = (...documents: string[]): Notice => ({
      type: 'library',
      pipelines: documents.map((document) => ({ ...info, document })),
      templates: [],
    });
    expect(reduce(reduce(two, listed('one', 'two')), opened('one')).history).toEqual(history);
    expect(reduce(reduce(two, listed('two')), opened('one')).history.done).toEqual([]);
    // The server says that the one shown is gone before it shows another.
    const deleted = reduce(reduce({ ...two, history }, listed('one')), opened('one'));
    expect(reduce(deleted, opened('two', EMPTY)).history.done).toEqual([]);
  });

  test('that is the same work under another name goes on with its undo and selection', () => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const state = { ...after(opened('one')), history, selection: { nodes: ['a'], edges: [] } };
    const renamed = reduce(state, opened('two', { ...DOC, name: 'two' }));
    expect(renamed.history).toEqual(history);
    expect(renamed.selection.nodes).toEqual(['a']);
  });

  test('that is the same work goes on with what is still on its way, unless it is a copy', () => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const ops = [set(['nodes', 'a', 'title'], 'typed')];
    const late = [set(['nodes', 'b', 'title'], 'too')];
    const pending = [
      { edit: 'e1', ops },
      { edit: 'e2', ops: late },
    ];
    const selection = { nodes: ['a'], edges: [] };
    const state = { ...after(opened('one', DOC, 5)), history, selection, pending, doc: apply(apply(DOC, ops), late) };
    const theirs = { ...apply(DOC, ops), name: 'two' };
    const renamed = reduce(state, { type: 'opened', document: 'two', rev: 6, doc: theirs, edits: ['e0', 'e1'] });
    expect(renamed).toMatchObject({ history, selection, pending: [{ edit: 'e2' }] });
    expect([renamed.doc.nodes.a?.title, renamed.doc.nodes.b?.title]).toEqual(['typed', 'too']);
    const confirmed = reduce(renamed, { type: 'edited', document: 'two', rev: 7, edit: 'e2', ops: late });
    expect(confirmed).toMatchObject({ pending: [], doc: renamed.doc, confirmed: renamed.doc });
    const copied = reduce(state, { type: 'opened', document: 'two', rev: 0, doc: { ...DOC, name: 'two' }, edits: [] });
    expect(copied).toMatchObject({ history, pending: [], doc: { nodes: { b: { title: '' } } } });
  });

  test('that is a copy goes on with it too, though a file sorts names and counts places anew', () => {
    const history = { done: [{ label: 'x', ops: [], inverse: [], group: null }], undone: [] };
    const [p, q] = [1, 2].map((value) => ({ value, help: '' })) as [DocParameter, DocParameter];
    const a = docNode({ type: 'Source', params: { y: 1, x: [2, 1] }, order: 0.5 });
    const shown = { ...EMPTY, name: 'one', nodes: { b: docNode({ order: 7 }), a }, parameters: { q, p } };
    const written = { ...a, params: { x: [2, 1], y: 1 }, order: 0 };
    const copied = { ...shown, name: 'two', nodes: { a: written, b: docNode({ order: 1 }) }, parameters: { p, q } };
    const state = { ...after(opened('one', shown)), history };
    expect(reduce(state, opened('two', copied)).history).toEqual(history);
    const other = { ...copied, nodes: { ...copied.nodes, a: { ...written, params: { x: [1, 2], y: 1 } } } };
    expect(reduce(state, opened('two', other)).history.done).toEqual([]);
  });
});

describe('a run', () => {
  const running = after(opened('one'), { type: 'run', document: 'one', run: RUN });

  test('changes of state add up; whole ones replace', () => {
    const some = reduce(running, { type: 'status', run_id: 'r1', whole: false, nodes: { a: STATUS } });
    const more = reduce(some, { type: 'status', run_id: 'r1', whole: false, nodes: { b: STATUS } });
    expect(Object.keys(more.status)).toEqual(['a', 'b']);
    expect(more.status.a).toBe(some.status.a);
    const whole = reduce(more, { type: 'status', run_id: 'r1', whole: true, nodes: { b: STATUS } });
    expect(Object.keys(whole.status)).toEqual(['b']);
  });

  test('states of another run are of no interest', () => {
    expect(reduce(running, { type: 'status', run_id: 'r0', whole: true, nodes: { a: STATUS } })).toBe(running);
  });

  test('a new one begins with no states', () => {
    const some = reduce(running, { type: 'status', run_id: 'r1', whole: false, nodes: { a: STATUS } });
    const same = reduce(some, { type: 'run', document: 'one', run: { ...RUN, state: 'done', ended: 2 } });
    expect(same.status).toBe(some.status);
    const next = reduce(some, { type: 'run', document: 'one', run: { ...RUN, run_id: 'r2' } });
    expect(next.status).toEqual({});
  });

  test('is news when it ends before our eyes, and no longer when the next one begins', () => {
    const done = { ...RUN, state: 'done', ended: 9 } as const;
    const shown = (run: RunInfo | null): Notice => ({ type: 'run', document: 'one', run });
    expect(after(opened('one'), shown(done)).finished).toBeNull();
    const seen = after(opened('one'), shown(RUN), shown(done));
    expect(seen.finished).toBe('r1');
    expect(reduce(seen, shown(done)).finished).toBe('r1');
    expect(reduce(seen, shown(RUN)).finished).toBeNull();
    expect(reduce(seen, shown({ ...RUN, run_id: 'r2' })).finished).toBeNull();
    expect(reduce(seen, shown({ ...done, run_id: 'r2' })).finished).toBeNull();
    expect(reduce(seen, opened('two', EMPTY)).finished).toBeNull();
  });

  test('is starting until it shows up, or until a message says what prevents it', () => {
    const ended = after(opened('one'), { type: 'run', document: 'one', run: { ...RUN, state: 'failed' } });
    const starting = { ...ended, starting: true };
    const message = { type: 'message', text: 'x', hint: '', node: null, parameter: null } as const;
    expect(reduce(starting, { ...message, level: 'info' }).starting).toBe(true);
    expect(reduce(starting, { ...message, level: 'error' }).starting).toBe(false);
    const late: Notice = { type: 'run', document: 'one', run: { ...RUN, state: 'failed' } };
    expect(reduce(starting, late).starting).toBe(true);
    expect(reduce(starting, { type: 'run', document: 'one', run: { ...RUN, run_id: 'r2' } }).starting).toBe(false);
    // Resumed, it is the same run again.
    expect(reduce(starting, { type: 'run', document: 'one', run: RUN }).starting).toBe(false);
  });
});

describe('a log', () => {
  const lines = (count: number, from = 0) => Array.from({ length: count }, (_, index) => line(`${from + index}`));
  const log = (count: number, from: number, reset: boolean, node = 'a'): Notice => {
    return { type: 'log', run_id: 'r1', node, reset, lines: lines(count, from) };
  };

  test('grows, and begins anew for another node', () => {
    const grown = after(log(2, 0, true), log(2, 2, false));
    expect(grown.log?.lines.map(({ text }) => text)).toEqual(['0', '1', '2', '3']);
    expect(reduce(grown, log(1, 9, false, 'b')).log).toMatchObject({ node: 'b', first: 0, lines: lines(1, 9) });
    expect(reduce(grown, log(1, 9, true)).log).toMatchObject({ first: 0, lines: lines(1, 9) });
  });

  test('keeps the last five thousand lines and knows how many came before', () => {
    const long = after(log(4999, 0, true), log(100, 4999, false));
    expect(long.log?.lines).toHaveLength(5000);
    expect(long.log?.first).toBe(99);
    expect(long.log?.lines[0]?.text).toBe('99');
    expect(after(log(6000, 0, true)).log?.first).toBe(1000);
  });
});

describe('the rest', () => {
  test('of a node type the newest version counts, in whatever order they come', () => {
    const type = (version: number) => ({
      ...{ type: 'Pass', version, category: '', summary: '', description: '', origin: '', backends: [] },
      ...{ light: '#000000', dark: '#ffffff', icon: 'M3 12h18', keywords: [] },
      ...{ inputs: [], outputs: [], fields: [] },
    });
    const types = [type(2), type(3), type(1)];
    const welcome: Notice = {
      type: 'welcome',
      ran: true,
      types,
      datasets: [],
      problems: [],
      profiles: [],
      workspace: '',
      version: '',
    };
    expect(after(welcome).types.Pass?.version).toBe(3);
  });

  test('that a pipeline is empty is no problem to report: the canvas says it', () => {
    const problem = { severity: 'error' as const, message: 'm', hint: '', node: null, port: null, parameter: null };
    const problems = ['VF108', 'VF205'].map((code) => ({ ...problem, code }));
    const checked: Notice = {
      type: 'checked',
      document: 'd',
      rev: 1,
      problems,
      previews: {},
      views: {},
      does: {},
      listed: true,
    };
    expect(after(opened('d'), checked).problems.map(({ code }) => code)).toEqual(['VF205']);
  });

  test('what is selected must be there, whatever it is called', () => {
    const selection = { nodes: ['a', 'constructor', '__proto__'], edges: ['toString'] };
    expect(still(selection, DOC)).toEqual({ nodes: ['a'], edges: [] });
    const fine = { nodes: ['a'], edges: [] };
    expect(still(fine, DOC)).toBe(fine);
  });

  test('of many toasts the last five stay, each with an id of its own', () => {
    const message: Notice = { type: 'message', level: 'info', text: 'x', hint: '', node: null, parameter: null };
    const ids = after(...Array.from({ length: 7 }, () => message)).toasts.map(({ id }) => id);
    expect(ids).toEqual([3, 4, 5, 6, 7]);
  });

  test('listings and exports are no part of the state', () => {
    const found = {
      path: null,
      parent: null,
      entries: [],
      truncated: false,
      allowed: true,
      elsewhere: [],
      problem: '',
    };
    expect(reduce(INITIAL, { type: 'listing', request: 1, ...found })).toBe(INITIAL);
    expect(reduce(INITIAL, { type: 'exported', name: 'x', text: '', packed: false })).toBe(INITIAL);
  });
});
