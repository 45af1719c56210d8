/** Planes through a volume as pixels, for browsers without WebGL 2. */

import type { Place, Range, Volume } from './nifti';

export type Axis = 0 | 1 | 2;
export const AXES = ['X', 'Y', 'Z'] as const;

/** The two axes of the plane across `axis`: to the right, and upwards. */
export function axesOf(axis: Axis): readonly [Axis, Axis] {
  if (axis === 0) return [1, 2];
  return axis === 1 ? [0, 2] : [0, 1];
}

/** RGBA of the plane across `axis` at a voxel, the first row on top; the second axis goes upwards. */
export function plane(
  volume: Volume,
  channel: number,
  axis: Axis,
  at: number,
  { low, high }: Range,
  colours: Uint8ClampedArray,
): { pixels: Uint8ClampedArray<ArrayBuffer>; width: number; height: number } {
  const [right, up] = axesOf(axis);
  const [sx, sy, sz] = volume.size;
  const strides = [1, sx, sx * sy] as const;
  const width = volume.size[right];
  const height = volume.size[up];
  const pixels = new Uint8ClampedArray(4 * width * height);
  const first = channel * sx * sy * sz + at * strides[axis];
  const scale = 255 / (high - low);
  for (let row = 0; row < height; row += 1) {
    const begin = first + (height - 1 - row) * strides[up];
    for (let column = 0; column < width; column += 1) {
      const value = volume.values[begin + column * strides[right]] ?? NaN;
      // A value that is no number gets the colour of the lowest.
      const level = 4 * Math.max(0, Math.min(255, Math.round((value - low) * scale) || 0));
      const pixel = 4 * (row * width + column);
      for (let part = 0; part < 4; part += 1) pixels[pixel + part] = colours[level + part] ?? 0;
    }
  }
  return { pixels, width, height };
}

/** The voxel under a point of the picture of a plane, as shares of its width and height from the top left. */
export function placeIn(volume: Volume, axis: Axis, place: Place, x: number, y: number): Place {
  const [right, up] = axesOf(axis);
  const next: [number, number, number] = [...place];
  next[right] = within(Math.floor(x * volume.size[right]), volume.size[right]);
  next[up] = within(Math.floor((1 - y) * volume.size[up]), volume.size[up]);
  return next;
}

/** Another place, `by` voxels along an axis. */
export function moved(volume: Volume, place: Place, axis: Axis, by: number): Place {
  const next: [number, number, number] = [...place];
  next[axis] = within(place[axis] + by, volume.size[axis]);
  return next;
}

function within(value: number, length: number): number {
  return Math.max(0, Math.min(length - 1, value));
}
