import { describe, expect, it } from 'vitest';

import { aboutZero, dragged, isTwoSided, ranges } from './ranges';
import { volumeOf } from './testing';

describe('a range', () => {
  it.each(['C', 'F'] as const)('is a channel’s own (%s)', (order) => {
    const read = volumeOf({ size: [10, 10, 10], order });
    expect(ranges(read, 0).all).toEqual({ low: 0, high: 999 });
    expect(ranges(read, 1).all).toEqual({ low: 1000, high: 1999 });
    expect(ranges(read, 0).usual).toEqual({ low: 10, high: 989 });
  });

  it('of one value, and of none that is a number, has some length', () => {
    const flat = volumeOf({ size: [2, 2, 2], channels: 1 });
    flat.values.fill(7);
    expect(ranges(flat, 0).usual).toEqual({ low: 6.5, high: 7.5 });
    // The range around zero, or around 0.1, reaches to its other side; the values do not.
    for (const value of [7, 0, 0.1, -0.3, 1e17]) {
      flat.values.fill(value);
      const { usual, twoSided } = ranges(flat, 0);
      const stored = flat.values[0] ?? NaN;
      expect([usual.low < stored, stored < usual.high, twoSided]).toEqual([true, true, false]);
    }
    flat.values.fill(NaN);
    expect(ranges(flat, 0).usual.high).toBeGreaterThan(ranges(flat, 0).usual.low);
    expect(aboutZero({ low: 0, high: 0 })).toEqual({ low: -0.5, high: 0.5 });
  });

  it('leaves out what is not finite', () => {
    const read = volumeOf({ size: [10, 10, 10], channels: 1 });
    // The values 0, 100 and 200, and 999.
    read.values.set([NaN, Infinity, -Infinity]);
    read.values[999] = NaN;
    expect(ranges(read, 0).all).toEqual({ low: 1, high: 998 });
  });

  it('of a volume that arrives is that of its preview', () => {
    const preview = volumeOf({ size: [2, 2, 1], channels: 1, steps: [2, 2, 2] });
    expect(ranges(volumeOf({ channels: 1 }, 8, preview), 0).all).toEqual({ low: 0, high: 11 });
  });

  it('of few values on either side of zero has two sides', () => {
    const few = volumeOf({ size: [10, 10, 10], channels: 1 });
    few.values.fill(0);
    expect(ranges(few, 0).twoSided).toBe(false);
    few.values.set([-1, 1]);
    expect(ranges(few, 0)).toMatchObject({ usual: { low: -1, high: 1 }, twoSided: true });
  });

  it('has two sides when the smaller one is over a quarter of the larger', () => {
    expect(isTwoSided({ low: -26, high: 100 })).toBe(true);
    expect(isTwoSided({ low: -25, high: 100 })).toBe(false);
    expect(isTwoSided({ low: -100, high: 26 })).toBe(true);
    expect(isTwoSided({ low: 1, high: 2 })).toBe(false);
    expect(aboutZero({ low: -26, high: 100 })).toEqual({ low: -100, high: 100 });
  });
});

describe('a window', () => {
  it('that is dragged to the right gets wider, downwards lower', () => {
    const wider = dragged({ low: 0, high: 10 }, 200, 0, true);
    expect([wider.low + wider.high, wider.high - wider.low]).toEqual([expect.closeTo(10), expect.closeTo(10 * Math.E)]);
    const lower = dragged({ low: 0, high: 10 }, 0, 200, true);
    expect(lower).toEqual({ low: 10, high: 20 });
  });

  it('keeps its middle where zero must stay in it', () => {
    const either = dragged({ low: -5, high: 5 }, 30, -70, false);
    expect([either.low + either.high, either.high]).toEqual([0, expect.closeTo(5 * Math.exp(0.5))]);
  });

  it('never loses its length', () => {
    const { low, high } = dragged({ low: 1, high: 2 }, -2000, 500, true);
    expect(high).toBeGreaterThan(low);
  });
});
