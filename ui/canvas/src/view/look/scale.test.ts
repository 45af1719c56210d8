import fc from 'fast-check';
import { expect, test } from 'vitest';

import { scale } from './scale';

const FROM = 126;
const TO = 8;

test.each([
  [0.5, 0.7, [0.5, 0.55, 0.6, 0.65, 0.7]],
  [-1, 1, [-1, -0.5, 0, 0.5, 1]],
  [0, 0, [-0.4, -0.2, 0, 0.2, 0.4]],
])('from %d to %d ticks stand at round values', (low, high, ticks) => {
  const found = scale(low, high, FROM, TO).ticks;
  expect(found.map((tick) => Number(tick.toPrecision(6)))).toEqual(ticks);
});

test('there is no epoch and a half', () => {
  expect(scale(1, 3, FROM, TO, true).ticks).toEqual([1, 2, 3]);
});

// Each of these but the last two once filled a list without end, and the browser's tab stood still.
test.each([
  [0.7208985421143077, 0.7208985421143078],
  [0.6931471805599453, 0.6931471805599454],
  [3, 3.0000000000000004],
  [1e16, 1e16 + 2],
  [1e20, 1e20],
  [Infinity, -Infinity],
])('values that differ by rounding, %d and %d, are one value in the middle', (low, high) => {
  const { at, ticks } = scale(low, high, FROM, TO);
  expect(ticks.length).toBeGreaterThan(1);
  expect(ticks.length).toBeLessThan(12);
  if (Number.isFinite(low)) expect(at(low)).toBeCloseTo((FROM + TO) / 2, 1);
});

test('whatever the values, the ticks are few and lie between the ends', () => {
  const number = fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e300, max: 1e300 });
  fc.assert(
    fc.property(number, fc.oneof(number, fc.double({ min: 0, max: 1e-7, noNaN: true })), (one, more) => {
      const other = Math.abs(more) < 1e-7 ? one * (1 + more) : more;
      const { at, ticks } = scale(Math.min(one, other), Math.max(one, other), FROM, TO);
      expect(ticks.length).toBeLessThan(12);
      for (const tick of ticks) {
        expect(at(tick)).toBeLessThanOrEqual(FROM + 1e-3);
        expect(at(tick)).toBeGreaterThanOrEqual(TO - 1e-3);
      }
    }),
  );
});
