import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { gradient, INFINITE, mapFor, palette, stops } from './colours';
import { axesOf, panned, placeIn, plane, shownPart, zoomed, type View } from './planes';
import { volumeOf } from './testing';
import { valueAt, type Axis, type Place, type Volume } from './volume';

const grey = palette('grey');
const whole: View = { zoom: 1, centre: [0, 0, 0] };

function rows(volume: Volume, axis: Axis, at: number, channel = 0): number[][] {
  const drawn = plane(volume, channel, axis, at, { low: 0, high: 255 }, grey);
  const reds = [...drawn.pixels].filter((_, n) => n % 4 === 0);
  return Array.from({ length: drawn.height }, (_, row) => reds.slice(row * drawn.width, (row + 1) * drawn.width));
}

describe('a plane', () => {
  it('has its second axis upwards', () => {
    const volume = volumeOf({ channels: 1 });
    expect(rows(volume, 2, 1)).toEqual([
      [120, 121, 122, 123],
      [110, 111, 112, 113],
      [100, 101, 102, 103],
    ]);
    expect(rows(volume, 0, 3)).toEqual([
      [103, 113, 123],
      [3, 13, 23],
    ]);
  });

  it('is what a naive loop over its voxels finds, in any order of the numbers', () => {
    const side = fc.integer({ min: 1, max: 5 });
    const wanted = fc.record({
      size: fc.tuple(side, side, side),
      channels: fc.integer({ min: 1, max: 3 }),
      order: fc.constantFrom('C' as const, 'F' as const),
    });
    fc.assert(
      fc.property(
        wanted,
        fc.constantFrom(0 as const, 1 as const, 2 as const),
        fc.nat(),
        fc.nat(),
        (form, axis, a, c) => {
          const volume = volumeOf(form);
          const [at, channel] = [a % form.size[axis], c % form.channels];
          const [right, up] = axesOf(axis);
          const range = { low: -50, high: 3500 };
          const drawn = plane(volume, channel, axis, at, range, grey);
          expect([drawn.width, drawn.height]).toEqual([form.size[right], form.size[up]]);
          for (let v = 0; v < drawn.height; v += 1)
            for (let u = 0; u < drawn.width; u += 1) {
              const place: [number, number, number] = [0, 0, 0];
              place[axis] = at;
              place[right] = u;
              place[up] = v;
              const value = valueAt(volume, channel, place) ?? NaN;
              const level = Math.round(((value - range.low) / (range.high - range.low)) * 255);
              expect(drawn.pixels[4 * ((drawn.height - 1 - v) * drawn.width + u)]).toBe(level);
            }
        },
      ),
    );
  });

  it('shows what is outside the window by the ends, what is no number not, and what is infinite as such', () => {
    const volume = volumeOf({ size: [5, 1, 1], channels: 1 });
    volume.values.set([NaN, 900, -900, Infinity, -Infinity]);
    const { pixels, missing, infinite } = plane(volume, 0, 2, 0, { low: 0, high: 1 }, grey);
    const of = (voxel: number) => [...pixels.slice(4 * voxel, 4 * voxel + 4)];
    expect(of(0)).toEqual([0, 0, 0, 0]);
    expect([of(1), of(2)]).toEqual([
      [255, 255, 255, 255],
      [0, 0, 0, 255],
    ]);
    expect([of(3), of(4)]).toEqual([
      [...INFINITE, 255],
      [...INFINITE, 255],
    ]);
    expect([missing, infinite]).toEqual([true, true]);
    expect(plane(volumeOf(), 0, 2, 0, { low: 0, high: 1 }, grey)).toMatchObject({ missing: false, infinite: false });
  });

  it('that has not arrived is the preview’s, or clear', () => {
    const preview = volumeOf({ size: [2, 2, 1], steps: [2, 2, 2], channels: 1 });
    const half = volumeOf({ channels: 1 }, 4 * 12, preview);
    expect(rows(half, 2, 1)).toEqual([
      [120, 121, 11, 11],
      [110, 111, 11, 11],
      [100, 101, 1, 1],
    ]);
    const { pixels } = plane({ ...half, preview: null }, 0, 0, 3, { low: 0, high: 255 }, grey);
    expect(pixels.every((byte) => byte === 0)).toBe(true);
  });
});

describe('a view', () => {
  const volume = volumeOf();

  it('is pointed at', () => {
    expect(placeIn(volume, 2, [0, 0, 1], whole, 0.99, 0.01)).toEqual([3, 2, 1]);
    expect(placeIn(volume, 0, [2, 0, 0], whole, -1, 2)).toEqual([2, 0, 0]);
  });

  it('shows all, or the part about a voxel, and never beyond the edge', () => {
    expect(shownPart(10, 1, 3)).toEqual({ begin: 0, span: 1 });
    expect(shownPart(10, 2, 4.5).begin).toBeCloseTo(-0.5);
    expect(shownPart(10, 2, 0).begin).toBe(0);
    expect(shownPart(10, 2, 9).begin).toBe(-1);
  });

  it('that is zoomed keeps what lies under the pointer, and what is dragged follows it', () => {
    const share = fc.double({ min: 0.01, max: 0.99, noNaN: true });
    fc.assert(
      fc.property(share, share, fc.double({ min: 1, max: 8, noNaN: true }), (x, y, by) => {
        const large = volumeOf({ size: [40, 30, 20], channels: 1 });
        const at: Place = [20, 15, 10];
        const near = zoomed(large, 2, { zoom: 1, centre: at }, by, x, y);
        expect(near.zoom).toBeCloseTo(by);
        const [before, behind] = [placeIn(large, 2, at, whole, x, y), placeIn(large, 2, at, near, x, y)];
        for (const axis of [0, 1] as const) expect(Math.abs(before[axis] - behind[axis])).toBeLessThanOrEqual(1);
        const back = zoomed(large, 2, near, 1 / by, x, y);
        expect(back.zoom).toBeCloseTo(1);
      }),
    );
    const large = volumeOf({ size: [40, 40, 40], channels: 1 });
    const near = panned(large, 2, { zoom: 4, centre: [20, 20, 20] }, 0.5, 0.5);
    expect(near.centre).toEqual([15, 25, 20]);
    expect(panned(large, 2, near, 99, 99).centre[0]).toBe(4.5);
  });
});

describe('colours', () => {
  it('go from the first to the last', () => {
    for (const map of ['grey', 'seismic', 'viridis'] as const) {
      const table = palette(map);
      expect([...table.slice(0, 3)]).toEqual(stops(map)[0]);
      expect([...table.slice(1020, 1023)]).toEqual(stops(map).at(-1));
      expect(table.filter((_, n) => n % 4 === 3).every((alpha) => alpha === 255)).toBe(true);
    }
    expect(gradient('grey')).toBe('linear-gradient(to right, #000000, #ffffff)');
  });

  it('are chosen by the values, unless a person does', () => {
    expect(mapFor('auto', true)).toBe('seismic');
    expect(mapFor('auto', false)).toBe('grey');
    expect(mapFor('viridis', true)).toBe('viridis');
  });
});
