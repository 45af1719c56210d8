import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Doc, Op } from '../protocol';
import { canonical, deed, doc, opsOf, type Deed } from './arbitraries';
import { setDescription, setTitle } from './edits';
import { NO_HISTORY, record, redo, seal, undo, type History } from './history';
import { apply, EMPTY, set } from './ops';

interface Work {
  doc: Doc;
  history: History;
}

function make(work: Work, ops: Op[], group: string | null = null): Work {
  return { doc: apply(work.doc, ops), history: record(work.history, work.doc, 'Edit', ops, group) };
}

function back(work: Work): Work | null {
  const moved = undo(work.history, work.doc);
  return moved && { doc: apply(work.doc, moved.ops), history: moved.history };
}

function forth(work: Work): Work | null {
  const moved = redo(work.history, work.doc);
  return moved && { doc: apply(work.doc, moved.ops), history: moved.history };
}

/** The document after each step of undo there is, the newest first. */
function unwound(work: Work): { states: string[]; work: Work } {
  const states = [canonical(work.doc)];
  let current = work;
  for (let next = back(current); next; next = back(current)) {
    current = next;
    states.push(canonical(current.doc));
  }
  return { states, work: current };
}

const thirty = fc.array(fc.tuple(deed, fc.constantFrom(null, null, 'typing', 'moving')), {
  minLength: 30,
  maxLength: 30,
});

describe('thirty mixed edits', () => {
  test('undone to the start and redone to the end give the same documents', () => {
    fc.assert(
      fc.property(doc, thirty, (start, deeds) => {
        let work: Work = { doc: start, history: NO_HISTORY };
        for (const [step, group] of deeds) work = make(work, opsOf(work.doc, step), group);
        const finish = canonical(work.doc);
        const { states, work: atStart } = unwound(work);
        expect(canonical(atStart.doc)).toBe(canonical(start));
        const again: string[] = [];
        let current = atStart;
        for (let next = forth(current); next; next = forth(current)) {
          again.push(canonical(current.doc));
          current = next;
        }
        expect([...again, canonical(current.doc)]).toEqual([...states].reverse());
        expect(canonical(current.doc)).toBe(finish);
      }),
      { numRuns: 60 },
    );
  });

  test('survive any walk back and forth', () => {
    fc.assert(
      fc.property(doc, thirty, fc.array(fc.boolean(), { maxLength: 60 }), (start, deeds, walk) => {
        let work: Work = { doc: start, history: NO_HISTORY };
        const seen = [canonical(start)];
        for (const [step] of deeds) {
          const before = work.history;
          work = make(work, opsOf(work.doc, step));
          if (work.history !== before) seen.push(canonical(work.doc));
        }
        let at = seen.length - 1;
        for (const forward of walk) {
          const next = forward ? forth(work) : back(work);
          if (next) at += forward ? 1 : -1;
          work = next ?? work;
          expect(canonical(work.doc)).toBe(seen[at]);
        }
      }),
      { numRuns: 60 },
    );
  });
});

describe('typing', () => {
  const typed = (text: string, work: Work) => make(work, setDescription(work.doc, text), 'description');

  test('into one field is one step until it ends', () => {
    let work: Work = { doc: EMPTY, history: NO_HISTORY };
    for (const text of ['a', 'ab', 'abc']) work = typed(text, work);
    expect(work.history.done).toHaveLength(1);
    work = { ...work, history: seal(work.history) };
    work = typed('abcd', work);
    expect(work.history.done).toHaveLength(2);
    expect(back(work)?.doc.description).toBe('abc');
  });

  test('into another field is another step', () => {
    let work: Work = typed('x', { doc: EMPTY, history: NO_HISTORY });
    work = make(work, [set(['ui', 'k'], 1)], 'ui');
    expect(work.history.done).toHaveLength(2);
  });

  test('after undo does not join the step before', () => {
    let work: Work = typed('ab', typed('a', { doc: EMPTY, history: NO_HISTORY }));
    work = make(work, [set(['ui', 'k'], 1)]);
    work = back(work) ?? work;
    work = back(work) ?? work;
    work = forth(work) ?? work;
    work = typed('abc', work);
    expect(back(work)?.doc.description).toBe('ab');
  });

  test('steps that belong together are taken back as a whole, whatever they touch', () => {
    fc.assert(
      fc.property(doc, fc.array(deed, { minLength: 1, maxLength: 8 }), (start, deeds: Deed[]) => {
        let work: Work = { doc: start, history: NO_HISTORY };
        for (const step of deeds) work = make(work, opsOf(work.doc, step), 'one');
        expect(work.history.done.length).toBeLessThanOrEqual(1);
        expect(canonical((back(work) ?? work).doc)).toBe(canonical(start));
      }),
    );
  });
});

test('an edit that changes nothing is no step', () => {
  expect(record(NO_HISTORY, EMPTY, 'Rename', [set(['nodes', 'gone', 'title'], 'x')])).toBe(NO_HISTORY);
});

test('a new edit forgets what was undone', () => {
  let work: Work = make({ doc: EMPTY, history: NO_HISTORY }, [set(['description'], 'a')]);
  work = back(work) ?? work;
  work = make(work, [set(['description'], 'b')]);
  expect(forth(work)).toBeNull();
});

test('undo leaves alone what someone else changed meanwhile', () => {
  fc.assert(
    fc.property(doc, deed, (start, step) => {
      let work: Work = make({ doc: start, history: NO_HISTORY }, opsOf(start, step));
      work = { ...work, doc: apply(work.doc, [set(['ui', 'theirs'], true)]) };
      const undone = back(work) ?? work;
      expect(undone.doc.ui.theirs).toBe(true);
      expect((forth(undone) ?? undone).doc.ui.theirs).toBe(true);
    }),
  );
});

test('redo makes again what undo took back, also when someone else changed the same field', () => {
  const start = apply(EMPTY, [set(['nodes', 'a'], { title: '' })]);
  let work: Work = make({ doc: start, history: NO_HISTORY }, setTitle(start, 'a', 'mine'));
  work = { ...work, doc: apply(work.doc, [set(['nodes', 'a', 'title'], 'theirs')]) };
  work = back(work) ?? work;
  expect(work.doc.nodes.a?.title).toBe('');
  work = forth(work) ?? work;
  expect(work.doc.nodes.a?.title).toBe('theirs');
});
