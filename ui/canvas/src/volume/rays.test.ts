import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import {
  boxHit,
  directions,
  FIRST_LOOK,
  isCut,
  opacityOf,
  picked,
  pointOf,
  project,
  reach,
  sides,
  type Camera,
} from './rays';
import { volumeOf } from './testing';
import type { Triple } from './volume';

const front: Camera = { azimuth: 0, elevation: 0, zoom: 1 };
const above: Camera = { azimuth: 0, elevation: Math.PI / 2, zoom: 1 };
const dot = (a: Triple, b: Triple) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

describe('the camera', () => {
  it('shows the same axes as the planes do, from the front and from above', () => {
    const look = directions(front);
    expect([look.right, look.up, look.into].map((each) => each.map((part) => Math.round(part) + 0))).toEqual([
      [1, 0, 0],
      [0, 0, 1],
      [0, 1, 0],
    ]);
    expect(directions(above).up.map((part) => Math.round(part) + 0)).toEqual([0, 1, 0]);
  });

  it('has three directions at right angles, none of them mirrored, and the box in its picture', () => {
    const angle = fc.double({ min: -7, max: 7, noNaN: true });
    fc.assert(
      fc.property(angle, angle, (azimuth, elevation) => {
        const camera = { azimuth, elevation, zoom: 1 };
        const { right, up, into } = directions(camera);
        for (const [a, b] of [
          [right, up],
          [up, into],
          [into, right],
        ] as const)
          expect(dot(a, b)).toBeCloseTo(0);
        const cross: Triple = [
          right[1] * up[2] - right[2] * up[1],
          right[2] * up[0] - right[0] * up[2],
          right[0] * up[1] - right[1] * up[0],
        ];
        expect(dot(cross, into)).toBeCloseTo(-1);
        const box: Triple = [1, 0.5, 0.25];
        for (const x of [-0.5, 0.5])
          for (const y of [-0.25, 0.25])
            for (const z of [-0.125, 0.125]) {
              const at = project([x, y, z], directions(camera), reach(box, camera));
              expect(Math.hypot(...at)).toBeLessThan(1);
            }
      }),
    );
  });
});

describe('a ray', () => {
  it('is in the box where small steps along it are', () => {
    const part = fc.double({ min: -1, max: 1, noNaN: true });
    const vector = fc.tuple(part, part, part);
    fc.assert(
      fc.property(vector, vector, (from, towards) => {
        fc.pre(Math.hypot(...towards) > 0.1);
        const box: Triple = [1, 0.6, 0.3];
        const hit = boxHit(from, towards, box);
        for (let along = -30; along <= 30; along += 0.37) {
          const inBox = ([0, 1, 2] as const).every(
            (axis) => Math.abs(from[axis] + along * towards[axis]) < box[axis] / 2,
          );
          expect(hit !== null && along > hit[0] && along < hit[1]).toBe(inBox);
        }
      }),
    );
  });

  it('beside the box, along one of its sides, passes by', () => {
    expect(boxHit([0, 0.6, -2], [0, 0, 1], [1, 1, 1])).toBeNull();
    expect(boxHit([0, 0.4, -2], [0, 0, 1], [1, 1, 1])).toEqual([1.5, 2.5]);
  });
});

describe('what one points at', () => {
  const volume = volumeOf({ size: [9, 9, 9], channels: 1 });
  const level = (value: number) => value;
  const opaque = { density: 1, signed: false };

  it('is the first voxel that hides what lies behind it', () => {
    volume.values.fill(0);
    expect(picked(volume, 0, front, [0, 0], level, opaque, null)).toBeNull();
    volume.values[4 * 81 + 6 * 9 + 4] = 1;
    expect(picked(volume, 0, front, [0, 0], level, opaque, null)).toEqual([4, 6, 4]);
    volume.values[4 * 81 + 2 * 9 + 4] = NaN;
    volume.values[4 * 81 + 3 * 9 + 4] = 1;
    expect(picked(volume, 0, front, [0, 0], level, opaque, null)).toEqual([4, 3, 4]);
    expect(picked(volume, 0, front, [0.99, 0.99], level, opaque, null)).toBeNull();
  });

  it('lies behind what is cut away', () => {
    volume.values.fill(1);
    const from = directions(FIRST_LOOK).into;
    const at = pointOf(volume, sides(volume), [4, 4, 4]);
    expect(isCut([at[0] - from[0] / 9, at[1] - from[1] / 9, at[2] - from[2] / 9], at, from)).toBe(true);
    expect(isCut([at[0] + from[0] / 9, at[1], at[2]], at, from)).toBe(false);
    const [before, behind] = [null, [4, 4, 4] as const].map((cut) =>
      picked(volume, 0, FIRST_LOOK, [0, 0], level, opaque, cut),
    );
    expect(before).not.toEqual(behind);
  });

  it('of values about zero is both ends, and a little of the middle', () => {
    const signed = { density: 0.5, signed: true };
    expect(opacityOf(0, signed)).toBe(opacityOf(1, signed));
    expect(opacityOf(0.5, signed)).toBeGreaterThan(0);
    expect(opacityOf(0, opaque)).toBe(0);
  });
});
