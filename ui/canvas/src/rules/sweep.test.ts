import { describe, expect, it } from 'vitest';

import { NO_LIMIT } from './limit';
import {
  countOf,
  EMPTY_SWEEP,
  forecastOf,
  isComplete,
  lastPath,
  timesText,
  USUAL_SEARCH,
  valuesOf,
  withPath,
  type SweepRow,
} from './sweep';

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

  it('is asked about without its limit', () => {
    const sweep = { ...of({ name: 'rate', text: '1e-3, 1e-4' }), limit: { after: '3h', cost: '2' } };
    expect(forecastOf(sweep, 'd', 'local', 'train')).toEqual({
      ...{ type: 'forecast-sweep', document: 'd', profile: 'local', end: 'train' },
      ...{ values: { rate: '1e-3, 1e-4' }, jobs: 1, search: null },
    });
  });

  it('takes paths that were looked for', () => {
    expect(withPath('', '/data/a')).toBe('/data/a');
    expect(withPath('/data/a, ', '/data/b')).toBe('/data/a, /data/b');
    expect(withPath('/data/a', '/data/b, c')).toBe('/data/a, "/data/b, c"');
    expect(['', '/data/a', '/data/a, /data/b', '/a, "/data/b, c"', '/a, "', '/a,'].map(lastPath)).toEqual([
      '',
      '/data/a',
      '/data/b',
      '/data/b, c',
      '',
      '',
    ]);
  });

  it('shares work between its runs', () => {
    expect([1, 9, 3, null].map((times) => timesText(times, 9))).toEqual([
      'once, for all runs',
      'in each run',
      'in 3 of the runs',
      'in each run that has other values for it',
    ]);
    expect(timesText(1, 1)).toBe('in the run');
  });

  it('counts from one on', () => {
    expect([NaN, -3, 0, 2.4, 900].map((typed) => countOf(typed, 64))).toEqual([null, 1, 1, 2, 64]);
  });
});
