import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { EMPTY } from '../document/ops';
import type { Doc, NodeForecast, ProfileInfo } from '../protocol';
import { briefTime, costText, estimateOf, timeText } from './estimate';
import type { Step } from './scope';

/** a -> b -> c, and x alone. */
const DOC: Doc = {
  ...EMPTY,
  edges: Object.fromEntries(
    [
      ['a', 'b.in'],
      ['b', 'c.in'],
    ].map(([from, target = ''], order) => [`${from}.out->${target}`, { source: `${from}.out`, target, order }]),
  ),
};

const PROFILE: ProfileInfo = {
  ...{ name: 'vm', backend: 'embedded', description: '', price: 3.6, currency: 'USD' },
  ...{ priced: '3.6 USD an hour: vm', stop_after: '', stop_at_cost: null },
};

const takes = (low: number | null, high: number | null): NodeForecast => ({
  ...{ fresh: false, reason: '', backend: '', backend_reason: '', advice: '', basis: '', last: null },
  ...{ low_s: low, high_s: high },
});

const working = (...nodes: string[]): Step[] => nodes.map((node) => ({ node, work: true, reason: '' }));
const name = (node: string) => node.toUpperCase();

describe('the estimate of a run', () => {
  const forecasts = { a: takes(10, 20), b: takes(5, 5), c: takes(null, null), x: takes(12, 30) };

  test('goes from the longest path to the sum of all', () => {
    expect(estimateOf(DOC, forecasts, working('a', 'b', 'x'))).toEqual({ seconds: { low: 15, high: 55 }, unknown: [] });
  });

  test('leaves out what is up to date', () => {
    const steps = [{ node: 'a', work: false, reason: '' }, ...working('b')];
    expect(estimateOf(DOC, forecasts, steps).seconds).toEqual({ low: 5, high: 5 });
  });

  test('names what is unknown instead of counting it as nothing', () => {
    const found = estimateOf(DOC, forecasts, working('a', 'c'));
    expect(timeText(found, name)).toBe('10 s to 20 s, and the unknown time of C');
    expect(costText(found, PROFILE, name)).toBe('0.01 to 0.02 USD, and the unknown cost of C');
    const nothing = estimateOf(DOC, forecasts, working('c', 'new'));
    expect(timeText(nothing, name)).toBe('unknown, without an earlier run of C, NEW');
    expect(costText(nothing, PROFILE, name)).toBe('unknown, as the time is');
  });

  test('in a few words it says whether something is unknown', () => {
    expect(briefTime(estimateOf(DOC, forecasts, working('a')))).toBe('takes 10 s to 20 s');
    expect(briefTime(estimateOf(DOC, forecasts, working('a', 'c')))).toBe('takes 10 s to 20 s or more');
    expect(briefTime(estimateOf(DOC, forecasts, working('c')))).toBe('time unknown');
  });

  test('without a price the cost is unknown, and says why', () => {
    const profile = { ...PROFILE, price: null, priced: 'the profile vm names neither a machine nor a price' };
    expect(costText(estimateOf(DOC, forecasts, working('a')), profile, name)).toBe(
      'unknown, as the profile vm names neither a machine nor a price',
    );
  });

  test('the least is never more than the most, whatever the wires', () => {
    const wires = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'x'), fc.constantFrom('a', 'b', 'c', 'x')));
    fc.assert(
      fc.property(wires, fc.array(fc.nat(1000), { minLength: 4, maxLength: 4 }), (pairs, seconds) => {
        const edges = Object.fromEntries(
          pairs.map(([from, to], order) => [`e${order}`, { source: `${from}.out`, target: `${to}.in`, order }]),
        );
        const known = Object.fromEntries(['a', 'b', 'c', 'x'].map((id, at) => [id, takes(seconds[at]!, seconds[at]!)]));
        const found = estimateOf({ ...EMPTY, edges }, known, working('a', 'b', 'c', 'x')).seconds;
        expect(found?.low).toBeGreaterThanOrEqual(Math.max(...seconds));
        expect(found?.high).toBe(seconds.reduce((sum, each) => sum + each, 0));
      }),
    );
  });
});
