import { describe, expect, it } from 'vitest';

import { palette, stops } from './colours';
import { centre, ranges, readVolume, storedPlace, valueAt, type Volume } from './nifti';
import { moved, placeIn, plane } from './planes';

/** A file as engine/viewing/pictures.py makes it: value = x + 10 y + 100 z + 1000 channel. */
function file(size: readonly [number, number, number], channels: number, type: number, step = 1): ArrayBuffer {
  const count = size[0] * size[1] * size[2] * channels;
  const width = { 4: 2, 16: 4 }[type] ?? 0;
  const buffer = new ArrayBuffer(352 + count * width);
  const header = new DataView(buffer);
  header.setInt32(0, 348, true);
  [channels > 1 ? 4 : 3, ...size, channels].forEach((length, at) => {
    header.setInt16(40 + 2 * at, length, true);
  });
  header.setInt16(70, type, true);
  for (const at of [80, 84, 88]) header.setFloat32(at, step, true);
  const values = type === 4 ? new Int16Array(buffer, 352) : new Float32Array(buffer, 352);
  let at = 0;
  for (let c = 0; c < channels; c += 1)
    for (let z = 0; z < size[2]; z += 1)
      for (let y = 0; y < size[1]; y += 1)
        for (let x = 0; x < size[0]; x += 1) {
          values[at] = x + 10 * y + 100 * z + 1000 * c;
          at += 1;
        }
  return buffer;
}

function volume(size: readonly [number, number, number] = [4, 3, 2], channels = 2, step = 1): Volume {
  return readVolume(file(size, channels, 16, step));
}

describe('a volume', () => {
  it.each([4, 16])('has its values at their places (type %i)', (type) => {
    const read = readVolume(file([4, 3, 2], 2, type));
    expect(read.size).toEqual([4, 3, 2]);
    expect(read.channels).toBe(2);
    expect(valueAt(read, 1, [3, 2, 1])).toBe(1123);
    expect(centre(read)).toEqual([2, 1, 1]);
  });

  it('that was reduced tells places in the whole one', () => {
    expect(storedPlace(volume([4, 3, 2], 1, 3), [2, 1, 0])).toEqual([6, 3, 0]);
  });

  it('that is none, or was cut short, is refused', () => {
    expect(() => readVolume(new ArrayBuffer(10))).toThrow('no volume');
    expect(() => readVolume(file([4, 3, 2], 1, 16).slice(0, 360))).toThrow('cut short');
    expect(() => readVolume(file([1, 1, 1], 1, 99))).toThrow('unknown type');
  });
});

describe('a window', () => {
  it('is a channel’s own, and lies about zero for colours of both signs', () => {
    const read = volume([10, 10, 10], 2);
    expect(ranges(read, 0, false).all).toEqual({ low: 0, high: 999 });
    expect(ranges(read, 1, false).all).toEqual({ low: 1000, high: 1999 });
    const { window } = ranges(read, 0, true);
    expect(window.low).toBe(-window.high);
  });

  it('of one value, and of none that is a number, has some length', () => {
    const flat = volume([2, 2, 2], 1);
    flat.values.fill(7);
    expect(ranges(flat, 0, false).window).toEqual({ low: 6.5, high: 7.5 });
    flat.values.fill(NaN);
    const { window } = ranges(flat, 0, false);
    expect(window.high).toBeGreaterThan(window.low);
  });
});

describe('a plane', () => {
  const grey = palette('grey');
  const shades = (axis: 0 | 1 | 2, at: number) => {
    const drawn = plane(volume([4, 3, 2], 1), 0, axis, at, { low: 0, high: 255 }, grey);
    const rows: number[][] = [];
    for (let row = 0; row < drawn.height; row += 1)
      rows.push(
        [...drawn.pixels.slice(4 * row * drawn.width, 4 * (row + 1) * drawn.width)].filter((_, i) => i % 4 === 0),
      );
    return rows;
  };

  it('has its second axis upwards', () => {
    expect(shades(2, 1)).toEqual([
      [120, 121, 122, 123],
      [110, 111, 112, 113],
      [100, 101, 102, 103],
    ]);
    expect(shades(0, 3)).toEqual([
      [103, 113, 123],
      [3, 13, 23],
    ]);
  });

  it('shows what is no number, or outside the window, by the ends', () => {
    const read = volume([2, 1, 1], 1);
    read.values.set([NaN, 900]);
    const { pixels } = plane(read, 0, 2, 0, { low: 0, high: 1 }, grey);
    expect([pixels[0], pixels[4]]).toEqual([0, 255]);
  });

  it('is pointed at', () => {
    const read = volume();
    expect(placeIn(read, 2, [0, 0, 1], 0.99, 0.01)).toEqual([3, 2, 1]);
    expect(placeIn(read, 0, [2, 0, 0], -1, 2)).toEqual([2, 0, 0]);
    expect(moved(read, [0, 0, 0], 2, 9)).toEqual([0, 0, 1]);
  });
});

it('colours go from the first to the last', () => {
  for (const map of ['grey', 'seismic', 'viridis'] as const) {
    const table = palette(map);
    expect([...table.slice(0, 3)]).toEqual(stops(map)[0]);
    expect([...table.slice(1020, 1023)]).toEqual(stops(map).at(-1));
  }
});
