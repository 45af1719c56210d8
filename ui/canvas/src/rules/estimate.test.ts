import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { EMPTY } from '../document/ops';
import type { Doc, NodeForecast, ProfileInfo, RequestCostInfo } from '../protocol';
import { nodeForecast } from '../testing';
import { briefTime, type Estimate, estimateOf, expectedParts } from './estimate';
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

const takes = (low_s: number | null, high_s: number | null) => nodeForecast(false, { low_s, high_s });

const working = (...nodes: string[]): Step[] => nodes.map((node) => ({ node, work: true, reason: '' }));
const name = (node: string) => node.toUpperCase();
const parts = (found: Estimate, profile = PROFILE) =>
  Object.fromEntries(expectedParts(found, profile, name).map((part) => [part.name, part.text]));

describe('the estimate of a run', () => {
  const forecasts = { a: takes(10, 20), b: takes(5, 5), c: takes(null, null), x: takes(12, 30) };

  test('goes from the longest path to the sum of all', () => {
    expect(estimateOf(DOC, forecasts, working('a', 'b', 'x'))).toMatchObject({
      seconds: { low: 15, high: 55 },
      unknown: [],
    });
  });

  test('leaves out what is up to date', () => {
    const steps = [{ node: 'a', work: false, reason: '' }, ...working('b')];
    expect(estimateOf(DOC, forecasts, steps).seconds).toEqual({ low: 5, high: 5 });
  });

  test('names what is unknown instead of counting it as nothing', () => {
    const found = estimateOf(DOC, forecasts, working('a', 'c'));
    expect(parts(found)).toEqual({
      time: '10 s to 20 s',
      cost: '0.01 to 0.02 USD',
      'not counted': 'C, which has no earlier run',
    });
  });

  test('says once that nothing is known, and why', () => {
    const nothing = estimateOf(DOC, forecasts, working('c', 'new'));
    expect(parts(nothing)).toEqual({ 'time and cost': 'unknown, without an earlier run of C, NEW' });
    const unpriced = { ...PROFILE, price: null, priced: 'the profile vm names neither a machine nor a price' };
    expect(parts(nothing, unpriced)).toEqual({
      'time and cost':
        'unknown, without an earlier run of C, NEW, and the profile vm names neither a machine nor a price',
    });
  });

  test('in a few words it says whether something is unknown', () => {
    expect(briefTime(estimateOf(DOC, forecasts, working('a')))).toBe('takes 10 s to 20 s');
    expect(briefTime(estimateOf(DOC, forecasts, working('a', 'c')))).toBe('takes 10 s to 20 s or more');
    expect(briefTime(estimateOf(DOC, forecasts, working('c')))).toBeNull();
  });

  test('without a price the cost is unknown, and says why', () => {
    const profile = { ...PROFILE, price: null, priced: 'the profile vm names neither a machine nor a price' };
    expect(parts(estimateOf(DOC, forecasts, working('a')), profile)).toEqual({
      time: '10 s to 20 s',
      cost: 'unknown, as the profile vm names neither a machine nor a price',
    });
  });

  test('requests to object storage are in the sum, as far as they are known in its currency', () => {
    const asked = (amount: number | null, more: Partial<RequestCostInfo> = {}): NodeForecast => ({
      ...takes(3600, 7200),
      requests: { place: 'az://data', amount, currency: 'USD', at_most: false, ...more },
    });
    const cost = (...each: NodeForecast[]) => {
      const nodes = each.map((_, at) => `n${at}`);
      const found = estimateOf(
        EMPTY,
        Object.fromEntries(nodes.map((node, at) => [node, each[at]!])),
        working(...nodes),
      );
      return parts(found)['cost'];
    };
    expect(cost(asked(1.43))).toBe('5.03 to 8.63 USD, of which 1.43 USD for requests to az://data');
    expect(cost(asked(1.43, { at_most: true }))).toBe(
      '3.60 to 8.63 USD, of which up to 1.43 USD for requests to az://data',
    );
    expect(cost(asked(null))).toBe('3.60 to 7.20 USD, and the unknown cost of requests to az://data');
    expect(cost(asked(1, { currency: 'EUR' }))).toBe('3.60 to 7.20 USD, and 1.00 EUR for requests to az://data');
    const alone = estimateOf(EMPTY, { n: { ...asked(1.43), low_s: null, high_s: null } }, working('n'));
    expect(parts(alone)).toEqual({
      'time and cost': 'unknown, without an earlier run of N, and 1.43 USD for requests to az://data',
    });
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
