import { expect, test } from 'vitest';

import { nodeStatus, runInfo } from '../testing';
import { canResume, elapsed, figureChange, figureText, runAddress, tally } from './runs';

const RUN = runInfo({ created: 100, started: null });

test.each([
  [0.90234567, '0.9023'],
  [33_368_897, '33,368,897'],
  [12345.678, '12,346'],
  [0.000012346, '0.00001235'],
  [2, '2'],
  [3.4e38, '3.4e+38'],
  [123_456_789_012_345, '123,456,789,012,345'],
])('the figure %d is %s', (value, text) => {
  expect(figureText(value)).toBe(text);
});

test.each([
  [0.93, 0.91, true, { sign: 'more', words: 'better, was 0.91', verdict: true }],
  [0.3, 0.2, false, { sign: 'more', words: 'worse, was 0.2', verdict: false }],
  [0.2, 0.3, true, { sign: 'less', words: 'better, was 0.3', verdict: true }],
  [0.93121, 0.93118, true, { sign: 'same', words: 'as before', verdict: null }],
  [0.93, 0.93, null, { sign: 'same', words: 'as before', verdict: null }],
  [0.93, null, null, { sign: 'same', words: '', verdict: null }],
])('%d after %d', (value, before, better, change) => {
  expect(figureChange({ node: 'train', title: 'Train', name: 'F1', value, before, better, unit: '' })).toEqual(change);
});

test('tasks that have come to an end, of all', () => {
  const states = ['queued', 'waiting', 'running', 'done', 'cached', 'failed', 'cancelled', 'skipped'] as const;
  const all = Object.fromEntries(states.map((state) => [state, nodeStatus(state)]));
  expect(tally(all)).toEqual({ finished: 5, total: 8, failed: 1 });
  expect(tally({})).toEqual({ finished: 0, total: 0, failed: 0 });
});

test('time taken: from its start, till now or its end, and never less than none', () => {
  expect(elapsed(RUN, 107)).toBe(7);
  expect(elapsed({ ...RUN, started: 103 }, 107)).toBe(4);
  expect(elapsed({ ...RUN, started: 103, ended: 105 }, 107)).toBe(2);
  expect(elapsed({ ...RUN, started: 103, ended: 115, paused: 9 }, 117)).toBe(3);
  // The browser's clock may be behind the server's.
  expect(elapsed(RUN, 90)).toBe(0);
});

test('what did not come to a good end can be resumed', () => {
  const states = ['starting', 'running', 'stuck', 'done', 'failed', 'cancelled', 'lost'] as const;
  expect(states.filter((state) => canResume({ ...RUN, state }))).toEqual(['failed', 'cancelled', 'lost']);
});

test('the address of a run holds any id', () => {
  expect(runAddress('a&b c')).toBe('run?run=a%26b%20c');
});
