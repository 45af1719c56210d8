import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

import { halfBits } from './half';
import { layers, LOST, MOST, scaleOf, textureAxes } from './texture';
import { volumeOf } from './testing';
import { valueAt } from './volume';

/** What the bits stand for, by the definition of binary16. */
function valueOf(bits: number): number {
  const [sign, exponent, mantissa] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + mantissa / 1024) * 2 ** (exponent - 15) : (mantissa / 1024) * 2 ** -14);
}

describe('a half-float', () => {
  it('is found again, whichever of all it is', () => {
    for (let bits = 0; bits < 65_536; bits += 1) {
      const value = valueOf(bits);
      if (Number.isNaN(value)) expect(valueOf(halfBits(value))).toBeNaN();
      else if (halfBits(value) !== bits) expect.fail(`${bits} became ${halfBits(value)}`);
    }
  });

  it('is the nearest one', () => {
    fc.assert(
      fc.property(fc.float({ min: -65_000, max: 65_000, noNaN: true }), (value) => {
        const found = halfBits(value);
        const distance = Math.abs(valueOf(found) - value);
        for (const other of [found + 1, found - 1])
          if (other >= 0 && (other & 0x7fff) < 0x7c00)
            expect(distance).toBeLessThanOrEqual(Math.abs(valueOf(other) - value));
      }),
    );
    expect(valueOf(halfBits(1e6))).toBe(Infinity);
    expect(valueOf(halfBits(-1e6))).toBe(-Infinity);
    // Of two that are as near the even one.
    expect(halfBits(1 + 2 ** -11)).toBe(halfBits(1));
    expect(halfBits(1 + 3 * 2 ** -11)).toBe(halfBits(1 + 2 ** -9));
    expect(halfBits(2 ** -25)).toBe(0);
  });
});

describe('a texture', () => {
  it.each(['C', 'F'] as const)('has every voxel of the channel, in the order of the numbers (%s)', (order) => {
    const volume = volumeOf({ size: [4, 3, 2], order });
    const scale = scaleOf({ low: 0, high: 2000 });
    const axes = textureAxes(volume);
    expect(axes).toEqual(order === 'C' ? [2, 1, 0] : [0, 1, 2]);
    const [fast, second, slow] = axes;
    const all = [...layers(volume, 1, scale, 0, 1), ...layers(volume, 1, scale, 1, volume.size[slow])];
    let at = 0;
    for (let s = 0; s < volume.size[slow]; s += 1)
      for (let m = 0; m < volume.size[second]; m += 1)
        for (let f = 0; f < volume.size[fast]; f += 1) {
          const place: [number, number, number] = [0, 0, 0];
          place[fast] = f;
          place[second] = m;
          place[slow] = s;
          expect(valueOf(all[at] ?? 0)).toBeCloseTo(((valueAt(volume, 1, place) ?? NaN) - 1000) / 1000, 3);
          at += 1;
        }
    expect(at).toBe(all.length);
  });

  it('tells what is no finite number from all others', () => {
    const volume = volumeOf({ size: [5, 1, 1], channels: 1 });
    volume.values.set([NaN, Infinity, -Infinity, 1e30, -1e30]);
    const found = [...layers(volume, 0, scaleOf({ low: -1, high: 1 }), 0, 1)].map(valueOf);
    const lost = valueOf(halfBits(LOST));
    expect(found).toEqual([lost, lost, lost, MOST, -MOST]);
    expect(lost).toBeLessThan(-100 * MOST);
  });
});
