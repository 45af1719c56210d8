import { describe, expect, it } from 'vitest';

import { NO_LIMIT } from './limit';
import { countOf, EMPTY_SWEEP, isComplete, USUAL_SEARCH, valuesOf, type SweepRow } from './sweep';

const of = (...rows: SweepRow[]) => ({ rows, jobs: 1, search: null, limit: NO_LIMIT });

describe('a sweep in the run dialog', () => {
  it('is the values of the rows that say something', () => {
    const sweep = of({ name: 'rate', text: '1e-3, 1e-4' }, { name: '', text: '1,2' }, { name: 'a.b', text: ' ' });
    expect(valuesOf(sweep)).toEqual({ rate: '1e-3, 1e-4' });
    expect(valuesOf(EMPTY_SWEEP)).toEqual({});
  });

  it('can begin once something varies, each parameter in one row', () => {
    expect(isComplete(EMPTY_SWEEP)).toBe(false);
    expect(isComplete(of({ name: 'a', text: '1' }))).toBe(false);
    expect(isComplete(of({ name: 'a', text: '1,2' }, { name: 'b', text: '3' }))).toBe(true);
    expect(isComplete(of({ name: 'a', text: '1,2' }, { name: 'a', text: '3' }))).toBe(false);
  });

  it('searches ranges too, by a figure', () => {
    const range = of({ name: 'rate', text: '1e-5..1e-2:log' });
    expect(isComplete(range)).toBe(false);
    expect(isComplete({ ...range, search: USUAL_SEARCH })).toBe(true);
    expect(isComplete({ ...range, search: { ...USUAL_SEARCH, figure: ' ' } })).toBe(false);
  });

  it('counts from one on', () => {
    expect([NaN, -3, 0, 2.4, 900].map((typed) => countOf(typed, 64))).toEqual([1, 1, 1, 2, 64]);
  });
});
