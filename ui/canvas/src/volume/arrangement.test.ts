import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { arrange, FOOT, type Layout } from './arrangement';
import { axesOf } from './planes';
import type { Triple } from './volume';

const length = fc.integer({ min: 1, max: 2000 });

describe('the pictures', () => {
  it('lie on the stage, do not cover each other, and keep the shape of a voxel', () => {
    const layouts = fc.constantFrom<Layout>('planes', 'all', 'z', 'rendering');
    const width = fc.integer({ min: 400, max: 2000 });
    fc.assert(
      fc.property(layouts, fc.tuple(length, length, length), width, width, (layout, size, w, h) => {
        const { planes, rendering } = arrange(layout, size, w, h);
        expect(planes.length).toBe({ planes: 3, all: 3, z: 1, rendering: 0 }[layout as 'planes']);
        expect(rendering !== null).toBe(layout === 'all' || layout === 'rendering');
        const boxes = planes.map(({ box }) => ({ ...box, height: box.height + FOOT }));
        if (rendering) boxes.push(rendering);
        for (const { left, top, width: wide, height } of boxes) {
          expect(Math.min(left, top)).toBeGreaterThanOrEqual(0);
          expect(left + wide).toBeLessThanOrEqual(w + 0.001);
          expect(top + height).toBeLessThanOrEqual(h + 0.001);
        }
        boxes.forEach((a, n) => {
          for (const b of boxes.slice(n + 1)) {
            const apart =
              a.left + a.width <= b.left + 0.001 ||
              b.left + b.width <= a.left + 0.001 ||
              a.top + a.height <= b.top + 0.001 ||
              b.top + b.height <= a.top + 0.001;
            expect(apart).toBe(true);
          }
        });
        for (const { axis, box } of planes) {
          const [right, up] = axesOf(axis);
          expect(box.width / box.height).toBeCloseTo(size[right] / size[up], 3);
        }
      }),
    );
  });

  it('have one scale, but for those that could not be seen in it', () => {
    const scales = (size: Triple) =>
      new Map(
        arrange('planes', size, 1000, 700).planes.map(({ axis, box }) => [axis, box.width / size[axesOf(axis)[0]]]),
      );
    const even = scales([200, 180, 90]);
    expect(new Set([...even.values()].map((scale) => scale.toFixed(6))).size).toBe(1);
    const long = scales([2000, 30, 30]);
    expect(long.get(0)).toBeGreaterThan(5 * (long.get(2) ?? 0));
  });

  it.each<Triple>([
    [30, 30, 10],
    [512, 512, 200],
    [91, 109, 91],
  ])('of %d x %d x %d voxels have the same place in line', (...size) => {
    for (const layout of ['planes', 'all'] as const) {
      const { planes, rendering } = arrange(layout, size, 950, 600);
      const boxes = new Map(planes.map(({ axis, box }) => [axis, box]));
      const [x, y, z] = ([0, 1, 2] as const).map((axis) => boxes.get(axis));
      // X goes to the right in the planes across Y and Z, Z upwards in those across X and Y.
      expect([z?.left, z?.width]).toEqual([y?.left, y?.width]);
      expect([x?.top, x?.height]).toEqual([y?.top, y?.height]);
      expect((rendering?.width ?? 0) > 300).toBe(layout === 'all');
    }
  });

  it('of one plane fill the stage', () => {
    const [only] = arrange('z', [100, 100, 10], 1000, 700).planes;
    expect(only?.box.height).toBe(700 - 24 - FOOT);
  });
});
