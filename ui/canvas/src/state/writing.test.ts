import { beforeEach, describe, expect, test } from 'vitest';

import { addAnnotation, placeAnnotation, setText } from '../document/annotations';
import { apply, EMPTY, set } from '../document/ops';
import { App } from './app';
import { reduce } from './state';
import { Writing } from './writing';

let app: App;
let writing: Writing;
const text = () => app.state.doc.annotations.note?.text;

function theirs(now: string): void {
  const ops = [set(['annotations', 'note', 'text'], now)];
  // Python has ours before theirs.
  const { document, rev, doc, pending } = app.state;
  const edits = pending.map(({ edit }) => edit);
  for (const notice of [
    { type: 'opened' as const, document: document!, rev, doc, edits },
    { type: 'edited' as const, document: document!, rev: rev + 1, edit: 'x', ops },
  ])
    app.store.setState(reduce(app.state, notice), true);
}

beforeEach(() => {
  const { ops } = addAnnotation(EMPTY, 'note', { x: 0, y: 0, width: 220, height: 120 });
  const doc = apply(apply(EMPTY, ops), setText(apply(EMPTY, ops), 'note', 'before'));
  app = new App('me');
  app.store.setState(reduce(app.state, { type: 'opened', document: 'd', rev: 1, doc, edits: [] }), true);
  writing = new Writing(app, 'note');
});

test('each letter is in the document, and all are one step', () => {
  for (const typed of ['w', 'wh', 'why ']) writing.write(typed);
  expect(text()).toBe('why ');
  // Nothing goes out here, so that they wait as one edit: each holds all letters before it.
  expect(app.state.pending).toHaveLength(1);
  writing.end(true);
  expect(text()).toBe('why');
  new Writing(app, 'note').write('later');
  expect(app.state.history.done).toHaveLength(2);
  app.undo();
  expect([app.undo(), text()]).toEqual(['Write note', 'before']);
});

test('what is given up is taken back', () => {
  writing.write('why');
  writing.end(false);
  expect(text()).toBe('before');
});

test.each([
  ['given up', ['z', 'zz'], false],
  ['deleted again', ['z', 'before'], true],
  ['nothing but spaces', ['before ', 'before  '], true],
])('what is %s is no step: redo brings what was undone before', (_, letters, kept) => {
  app.edit('Move note', placeAnnotation(app.state.doc, 'note', { x: 50 }));
  app.undo();
  for (const typed of letters) writing.write(typed);
  writing.end(kept);
  expect(text()).toBe('before');
  expect(app.undo()).toBeNull();
  expect([app.redo(), text()]).toEqual(['Move note', 'before']);
  expect(app.state.doc.annotations.note?.position.x).toBe(50);
});

test('what is given up takes back nothing that was done after it', () => {
  writing.write('why');
  app.edit('Move note', placeAnnotation(app.state.doc, 'note', { x: 50 }));
  writing.end(false);
  expect(text()).toBe('why');
  expect(app.state.history.done).toHaveLength(2);
});

describe('another tab’s text stays as it is written there', () => {
  test.each([true, false])('where nothing was typed (kept: %s)', (kept) => {
    theirs(' theirs ');
    writing.end(kept);
    expect(text()).toBe(' theirs ');
    expect(app.state.history.done).toEqual([]);
  });

  test.each([true, false])('where it is newer than the last letter (kept: %s)', (kept) => {
    writing.write('why');
    theirs(' theirs ');
    writing.end(kept);
    expect(text()).toBe(' theirs ');
    expect(app.state.history.done).toHaveLength(1);
  });
});

test('a field that goes without being left ends its step: giving up later takes back nothing of it', () => {
  writing.write('earlier');
  writing.close();
  const later = new Writing(app, 'note');
  later.end(false);
  expect(text()).toBe('earlier');
  later.write('more');
  later.end(false);
  expect(text()).toBe('earlier');
});

test('a renamed pipeline is the same work, and another one ends the step', () => {
  writing.write('why');
  const { doc, pending, work } = app.state;
  const edits = pending.map(({ edit }) => edit);
  app.store.setState(reduce(app.state, { type: 'opened', document: 'e', rev: 2, doc, edits }), true);
  expect(app.state.work).toBe(work);
  writing.write('why not');
  expect(app.state.history.done).toHaveLength(1);
  app.store.setState(reduce(app.state, { type: 'opened', document: 'f', rev: 1, doc: EMPTY, edits: [] }), true);
  expect(app.state.work).toBe(work + 1);
  expect(app.state.histories.e?.done.at(-1)?.group).toBeNull();
});
