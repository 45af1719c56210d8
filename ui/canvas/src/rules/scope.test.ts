import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { doc as anyDoc } from '../arbitraries';
import { EMPTY } from '../document/ops';
import type { Doc, Problem } from '../protocol';
import { docNode, nodeForecast } from '../testing';
import { blocking, EVERYTHING, forecast, wanted } from './scope';

const node = (order: number) => docNode({ order });

/** a -> b -> c, and x -> c, and y alone. */
const DOC: Doc = {
  ...EMPTY,
  nodes: { a: node(0), b: node(1), c: node(2), x: node(3), y: node(4) },
  edges: Object.fromEntries(
    [
      ['a', 'b.in'],
      ['b', 'c.left'],
      ['x', 'c.right'],
    ].map(([from, target = ''], order) => [`${from}.out->${target}`, { source: `${from}.out`, target, order }]),
  ),
};

const sorted = (set: Set<string>) => [...set].sort().join('');

test.each([
  ['everything', null, null, 'abcxy'],
  ['to a node: what it needs', null, 'b', 'ab'],
  ['from a node: everything downstream, and what that needs', 'b', null, 'abcx'],
  ['from one to another', 'a', 'b', 'ab'],
  ['from a node that does not lead there: nothing', 'x', 'b', ''],
])('%s', (_, start, end, nodes) => {
  expect(sorted(wanted(DOC, { start, end, fresh: false }))).toBe(nodes);
});

test('a part holds all that its nodes need, and the node it was asked for', () => {
  fc.assert(
    fc.property(anyDoc, fc.nat(20), fc.nat(20), fc.constantFrom('start', 'end', 'both'), (doc, a, b, which) => {
      const ids = Object.keys(doc.nodes).sort();
      const start = which === 'end' ? null : (ids[a % ids.length] ?? null);
      const end = which === 'start' ? null : (ids[b % ids.length] ?? null);
      const part = wanted(doc, { start, end, fresh: false });
      for (const edge of Object.values(doc.edges)) {
        if (part.has(edge.target.split('.')[0] ?? '')) expect(part).toContain(edge.source.split('.')[0]);
      }
      if (which !== 'both') for (const id of [start, end]) if (id !== null) expect(part).toContain(id);
      if (which === 'both' && part.size > 0) for (const id of [start, end]) expect(part).toContain(id);
    }),
  );
});

describe('the forecast', () => {
  const fresh = nodeForecast(true);
  const forecasts = { a: fresh, b: fresh, c: nodeForecast(false, { reason: 'epochs changed' }), x: fresh };
  const steps = (part: Parameters<typeof forecast>[2]) =>
    forecast(DOC, forecasts, part).map(({ node: id, work, reason }) => `${id}${work ? '!' : ''} ${reason}`.trim());

  test('says which nodes would do work, and why', () => {
    expect(steps(EVERYTHING)).toEqual(['a', 'b', 'c! epochs changed', 'x', 'y!']);
  });

  test('from a node everything downstream works', () => {
    expect(steps({ ...EVERYTHING, start: 'b' })).toEqual(['a', 'b! asked for', 'c! asked for', 'x']);
  });

  test('fresh, all of them do', () => {
    expect(steps({ ...EVERYTHING, end: 'b', fresh: true })).toEqual(['a! asked for', 'b! asked for']);
  });
});

test('errors keep a run back when they concern its nodes; warnings and missing values never do', () => {
  const problem = (change: Partial<Problem>): Problem => ({
    ...{ code: 'VF106', severity: 'error', message: '', hint: '', node: null, port: null, parameter: null },
    ...change,
  });
  const problems = [
    problem({}),
    problem({ node: 'a' }),
    problem({ node: 'y' }),
    problem({ node: 'a', severity: 'warning' }),
    problem({ node: 'a', code: 'VF205' }),
  ];
  expect(blocking(problems, DOC, EVERYTHING)).toEqual(problems.slice(0, 3));
  expect(blocking(problems, DOC, { ...EVERYTHING, end: 'b' })).toEqual(problems.slice(0, 2));
});
