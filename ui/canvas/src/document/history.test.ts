import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { Doc, Op } from '../protocol';
import { docNode } from '../testing';
import { brokenLaw, canonical, deed, doc, opsOf, unlawful, type Deed } from '../arbitraries';
import {
  changeId,
  connect,
  removeItems,
  removePipelineParameter,
  renamePipelineParameter,
  setDescription,
  setParameter,
  setPipelineParameter,
  setTitle,
} from './edits';
import { amend, giveUp, NO_HISTORY, record, redo, seal, undo, type History } from './history';
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
      fc.property(fc.oneof(doc, unlawful), thirty, (start, deeds) => {
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
      fc.property(fc.oneof(doc, unlawful), thirty, fc.array(fc.boolean(), { maxLength: 60 }), (start, deeds, walk) => {
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

  test('ends with the next step, also when that is undone', () => {
    let work: Work = make(typed('a', { doc: EMPTY, history: NO_HISTORY }), [set(['ui', 'k'], 1)]);
    work = typed('ab', back(work)!);
    expect(back(work)?.doc.description).toBe('a');
  });

  describe('that comes to nothing', () => {
    const moved = make({ doc: EMPTY, history: NO_HISTORY }, [set(['ui', 'k'], 1)]);
    const before = back(moved)!;

    test('as all of it was deleted again is no step, and what was undone is there still', () => {
      let work = before;
      for (const text of ['a', 'ab', 'a', '', 'b', '']) work = typed(text, work);
      expect(work.history.done).toEqual([]);
      expect(forth(work)?.doc).toEqual(moved.doc);
    });

    test('as it was given up is no step, and what was undone is there still', () => {
      const work = typed('ab', typed('a', before));
      const { ops, history } = giveUp(work.history, 'description')!;
      expect(apply(work.doc, ops)).toEqual(before.doc);
      expect(history.done).toEqual([]);
      expect(forth({ doc: before.doc, history })?.doc).toEqual(moved.doc);
    });

    test('can be given up only while it is what is being done', () => {
      const work = typed('a', before);
      expect(giveUp(work.history, 'another')).toBeNull();
      expect(giveUp(seal(work.history), 'description')).toBeNull();
      expect(giveUp(make(work, [set(['ui', 'k'], 2)]).history, 'description')).toBeNull();
    });
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

describe('what another tab does meanwhile', () => {
  const nodes = { a: docNode({ type: 'Source' }), b: docNode({ type: 'Source' }), t: docNode() };
  const START: Doc = { ...EMPTY, nodes, parameters: { p: { value: 5, help: '' } } };
  const WIRED = apply(START, connect(START, 'a.out', 't.in'));

  /** I make `mine`, they make `theirs`, I undo. */
  function undone(start: Doc, mine: Op[], theirs: (doc: Doc) => Op[]): Work {
    const work = make({ doc: start, history: NO_HISTORY }, mine);
    const doc = apply(work.doc, theirs(work.doc));
    return back({ ...work, doc }) ?? work;
  }

  /** They make `theirs` before they have heard of what I did. */
  function heard(work: Work, theirs: Op[]): Work {
    const doc = apply(work.doc, theirs);
    return { doc, history: amend(work.history, doc, theirs) };
  }

  test('stays in the help of a parameter whose value is undone', () => {
    const { doc } = undone(START, setPipelineParameter(START, 'p', 6, ''), (now) =>
      setPipelineParameter(now, 'p', 6, 'how many'),
    );
    expect(doc.parameters.p).toEqual({ value: 5, help: 'how many' });
  });

  test('stays at a node that gets its id back, and comes along once more with redo', () => {
    const work = undone(START, changeId(START, 'a', 'c'), (now) => [
      ...setParameter(now, 'c', 'epochs', 20),
      ...connect(now, 'c.out', 't.in'),
    ]);
    expect(work.doc.nodes.a?.params).toEqual({ epochs: 20 });
    expect(Object.keys(work.doc.edges)).toEqual(['a.out->t.in']);
    const again = forth({ ...work, doc: apply(work.doc, setTitle(work.doc, 'a', 'theirs')) });
    expect(again?.doc.nodes).not.toHaveProperty('a');
    expect(again?.doc.nodes.c).toMatchObject({ title: 'theirs', params: { epochs: 20 } });
    expect(Object.keys(again?.doc.edges ?? {})).toEqual(['c.out->t.in']);
  });

  test('stays in a parameter that gets its name back', () => {
    const { doc } = undone(START, renamePipelineParameter(START, 'p', 'q'), (now) =>
      setPipelineParameter(now, 'q', 7, 'theirs'),
    );
    expect(doc.parameters).toEqual({ p: { value: 7, help: 'theirs' } });
  });

  test('stays in the fields that take a renamed parameter, and comes along with redo', () => {
    const bound = apply(START, setParameter(START, 'a', 'epochs', '${p} of 9'));
    const work = undone(bound, renamePipelineParameter(bound, 'p', 'q'), (now) => [
      ...setParameter(now, 'a', 'epochs', '${q} of 20'),
      ...setParameter(now, 'b', 'epochs', '${q}'),
    ]);
    expect([work.doc.nodes.a?.params.epochs, work.doc.nodes.b?.params.epochs]).toEqual(['${p} of 20', '${p}']);
    const again = forth({ ...work, doc: apply(work.doc, setParameter(work.doc, 't', 'epochs', '${p}')) });
    expect(again?.doc.nodes.t?.params.epochs).toBe('${q}');
  });

  test.each([
    ['a', 't'],
    ['t', 'a'],
  ])('between two nodes that went one after the other comes back with the last (%s first)', (first, second) => {
    let work: Work = { doc: START, history: NO_HISTORY };
    for (const id of [first, second]) work = make(work, removeItems(work.doc, [id], []));
    const theirs = connect(START, 'a.out', 't.in');
    work = heard(work, theirs);
    for (const _ of [first, second]) work = back(work)!;
    expect(Object.keys(work.doc.edges)).toEqual(['a.out->t.in']);
  });

  test('is not undone with a name: what they removed or named so stays as it is', () => {
    const renamed = changeId(START, 'a', 'c');
    expect(undone(START, renamed, (now) => removeItems(now, ['c'], [])).doc.nodes).not.toHaveProperty('a');
    const taken = undone(START, renamed, () => [set(['nodes', 'a'], docNode({ title: 'theirs' }))]);
    expect(taken.doc.nodes.a?.title).toBe('theirs');
    expect(taken.doc.nodes).toHaveProperty('c');
  });

  test('to what had a name does not go to what has it by then', () => {
    const crossing = setTitle(START, 'a', 'crossing');
    let work = make({ doc: START, history: NO_HISTORY }, changeId(START, 'a', 'c'));
    work = heard(work, crossing);
    work = { ...work, doc: apply(work.doc, [set(['nodes', 'a'], docNode({ title: 'theirs' }))]) };
    expect(back(work)?.doc.nodes.a?.title).toBe('theirs');
  });

  test('with a name that could not be had makes the way back and the way forth do nothing', () => {
    const work = undone(START, changeId(START, 'a', 'c'), (now) => [
      ...removeItems(now, ['c'], []),
      set(['nodes', 'a'], docNode({ title: 'theirs' })),
    ]);
    const again = forth(work)!;
    for (const { doc } of [work, again, back(again)!]) {
      expect(doc.nodes.a?.title).toBe('theirs');
      expect(doc.nodes).not.toHaveProperty('c');
    }
    const free = undone(START, changeId(START, 'a', 'c'), () => []);
    const taken = forth({ ...free, doc: apply(free.doc, [set(['nodes', 'c'], docNode({ title: 'theirs' }))]) })!;
    const last = back({ ...taken, doc: apply(taken.doc, removeItems(taken.doc, ['a'], [])) })!;
    expect(last.doc.nodes.c?.title).toBe('theirs');
    expect(last.doc.nodes).not.toHaveProperty('a');
  });

  test('to what undo took away comes along with redo', () => {
    const cases: [Op[], (doc: Doc) => Op[], (doc: Doc) => unknown, unknown][] = [
      [[set(['nodes', 'n'], docNode())], (d) => setParameter(d, 'n', 'p', 7), (d) => d.nodes.n?.params, { p: 7 }],
      [
        [set(['nodes', 'n'], docNode())],
        (d) => connect(d, 'n.out', 't.in'),
        (d) => Object.keys(d.edges),
        ['n.out->t.in'],
      ],
      [changeId(START, 'a', 'c'), (d) => setTitle(d, 'c', 'x'), (d) => d.nodes.c?.title, 'x'],
      [changeId(START, 'a', 'c'), (d) => connect(d, 'c.out', 't.in'), (d) => Object.keys(d.edges), ['c.out->t.in']],
      [
        setPipelineParameter(START, 'q', 5, ''),
        (d) => setPipelineParameter(d, 'q', 5, 'x'),
        (d) => d.parameters.q,
        { value: 5, help: 'x' },
      ],
    ];
    for (const [mine, theirs, found, expected] of cases) {
      const made = make({ doc: START, history: NO_HISTORY }, mine);
      const work = heard(back(made)!, theirs(made.doc));
      expect(work.doc).toEqual(START);
      const again = forth(work)!;
      expect(found(again.doc)).toEqual(expected);
      expect(back(again)?.doc).toMatchObject({ parameters: START.parameters, nodes: { b: START.nodes.b } });
      // Also when something was typed meanwhile, and given up.
      const typed = make(back(made)!, setDescription(START, 'typed'), 'typing');
      const later = heard(typed, theirs(made.doc));
      const { ops, history } = giveUp(later.history, 'typing')!;
      expect(found(forth({ doc: apply(later.doc, ops), history })!.doc)).toEqual(expected);
    }
  });

  test('to a node that undo takes away goes with it, and comes back with it', () => {
    const mine = [set(['nodes', 'n'], docNode())];
    const work = undone(START, mine, (now) => connect(now, 'n.out', 't.in'));
    expect(work.doc.edges).toEqual({});
    expect(Object.keys(forth(work)?.doc.edges ?? {})).toEqual(['n.out->t.in']);
  });

  test('in an input gives way to the wire that undo brings back', () => {
    const work = undone(WIRED, removeItems(WIRED, ['a'], []), (now) => connect(now, 'b.out', 't.in'));
    expect(Object.keys(work.doc.edges)).toEqual(['a.out->t.in']);
    expect(Object.keys(forth(work)?.doc.edges ?? {})).toEqual(['b.out->t.in']);
  });

  test('never leaves a wire into nowhere, nor two in one input', () => {
    fc.assert(
      fc.property(doc, fc.array(deed, { minLength: 1, maxLength: 6 }), fc.array(deed, { maxLength: 6 }), (...all) => {
        const [start, mine, theirs] = all;
        let work: Work = { doc: start, history: NO_HISTORY };
        for (const step of mine) work = make(work, opsOf(work.doc, step));
        work = { ...work, doc: theirs.reduce((now, step) => apply(now, opsOf(now, step)), work.doc) };
        for (let next = back(work); next; next = back(work)) {
          work = next;
          // Two people can make a cycle, which both see.
          expect(brokenLaw(work.doc)).toMatch(/^(|a cycle.*)$/);
        }
      }),
    );
  });

  test('to what is gone already comes back with it', () => {
    const cases: [Op[], Op[], (doc: Doc) => unknown, unknown][] = [
      [removeItems(START, ['a'], []), connect(START, 'a.out', 't.in'), (d) => Object.keys(d.edges), ['a.out->t.in']],
      [changeId(START, 'a', 'c'), connect(START, 'a.out', 't.in'), (d) => Object.keys(d.edges), ['a.out->t.in']],
      [changeId(START, 'a', 'c'), setTitle(START, 'a', 'x'), (d) => d.nodes.a?.title, 'x'],
      [
        removePipelineParameter(START, 'p'),
        setPipelineParameter(START, 'p', 5, 'x'),
        (d) => d.parameters.p,
        { value: 5, help: 'x' },
      ],
    ];
    for (const [mine, theirs, found, expected] of cases) {
      const made = make({ doc: START, history: NO_HISTORY }, mine);
      const work = heard(made, theirs);
      expect(work.doc).toEqual(made.doc);
      expect(found(back(work)!.doc)).toEqual(expected);
    }
  });
});
