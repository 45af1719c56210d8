import { describe, expect, it } from 'vitest';

import { Arrival, formOf } from './arrival';
import { bytesOf, headers, volumeOf } from './testing';
import { centre, extent, inside, isWhole, moved, storedPlace, valueAt, voxelSize } from './volume';

describe('a volume', () => {
  it.each([
    ['C', 'float32'],
    ['F', 'float32'],
    ['C', 'int16'],
  ] as const)('has its values at their places (%s, %s)', (order, type) => {
    const read = volumeOf({ order, type });
    expect([read.size, read.channels]).toEqual([[4, 3, 2], 2]);
    for (const [channel, x, y, z] of [
      [1, 3, 2, 1],
      [0, 0, 0, 0],
      [0, 2, 1, 0],
    ] as const)
      expect(valueAt(read, channel, [x, y, z])).toBe(x + 10 * y + 100 * z + 1000 * channel);
  });

  it('comes in parts of any length', () => {
    const all = headers();
    const form = formOf({ get: (name) => all.get(name) ?? null });
    const arrival = new Arrival(form);
    const bytes = bytesOf();
    for (let at = 0; at < bytes.length; at += 7) {
      expect(() => {
        arrival.end();
      }).toThrow('cut short');
      arrival.take(bytes.subarray(at, at + 7));
    }
    arrival.end();
    const read = arrival.volume(null);
    expect([isWhole(read), arrival.share, valueAt(read, 1, [3, 2, 1])]).toEqual([true, 1, 1123]);
    expect(() => {
      arrival.take(new Uint8Array(1));
    }).toThrow('more than the volume');
  });

  it('that has not arrived is seen by its preview, and not without one', () => {
    const preview = volumeOf({ size: [2, 2, 1], steps: [2, 2, 2] });
    const half = volumeOf({}, 4 * 12 * 2, preview);
    expect(isWhole(half)).toBe(false);
    expect(valueAt(half, 0, [1, 2, 1])).toBe(121);
    // The nearest voxel of the preview, which is its own last one: [1, 1, 0].
    expect(valueAt(half, 1, [3, 2, 1])).toBe(1011);
    expect(valueAt({ ...half, preview: null }, 1, [3, 2, 1])).toBeUndefined();
  });

  it('that was reduced tells places in the whole one, and its spacing', () => {
    const read = volumeOf({ steps: [3, 3, 1], spacing: [0.5, 1, 2] });
    expect(storedPlace(read, [2, 1, 0])).toEqual([6, 3, 0]);
    expect(voxelSize(read)).toEqual([1.5, 3, 2]);
    expect(extent(read)).toEqual([6, 9, 4]);
    expect(extent(volumeOf())).toEqual([4, 3, 2]);
  });

  it('is walked through as far as it goes', () => {
    const read = volumeOf();
    expect(centre(read)).toEqual([2, 1, 1]);
    expect(moved(read, [0, 0, 0], 2, 9)).toEqual([0, 0, 1]);
    expect(moved(read, [0, 0, 1], 2, -Infinity)).toEqual([0, 0, 0]);
    expect(inside(read, [9, -1, 1])).toEqual([3, 0, 1]);
  });

  it('that is none is refused', () => {
    const wrong = (name: string, value: string) => {
      const all = headers().set(name, value);
      return () => formOf({ get: (each) => all.get(each) ?? null });
    };
    expect(wrong('X-Voxelflow-Type', 'complex64')).toThrow('unknown type');
    expect(wrong('X-Voxelflow-Bytes', '5')).toThrow('no volume');
    expect(() => formOf({ get: () => null })).toThrow();
  });
});
