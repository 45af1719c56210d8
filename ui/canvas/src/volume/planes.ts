/** Planes through a volume as pixels, and what lies where in them. */

import { INFINITE } from './colours';
import type { Range } from './ranges';
import { inside, previewIndex, type Axis, type Place, type Volume } from './volume';

/** The two axes of the plane across `axis`: to the right, and upwards. As in thumbnails (`engine/viewing/pictures.py`). */
export function axesOf(axis: Axis): readonly [Axis, Axis] {
  if (axis === 0) return [1, 2];
  return axis === 1 ? [0, 2] : [0, 1];
}

export interface Plane {
  /** RGBA, the first row on top. */
  readonly pixels: Uint8ClampedArray<ArrayBuffer>;
  readonly width: number;
  readonly height: number;
  /** Some of its values are no numbers, and clear. */
  readonly missing: boolean;
  /** Some of its values are infinite, and have the colour of that. */
  readonly infinite: boolean;
}

/**
 * The plane across `axis` at a voxel, its second axis upwards. What has not arrived is taken from the preview, or is clear
 * without one.
 */
export function plane(
  volume: Volume,
  channel: number,
  axis: Axis,
  at: number,
  { low, high }: Range,
  colours: Uint8ClampedArray,
): Plane {
  const [right, up] = axesOf(axis);
  const { size, strides, values, arrived } = volume;
  const [width, height] = [size[right], size[up]];
  const pixels = new Uint8ClampedArray(4 * width * height);
  const first = channel * volume.channelStride + at * strides[axis];
  const before = coarser(volume, channel, axis, at);
  const scale = 255 / (high - low);
  let [missing, infinite] = [false, false];
  for (let row = 0; row < height; row += 1) {
    const upwards = height - 1 - row;
    const begin = first + upwards * strides[up];
    for (let column = 0; column < width; column += 1) {
      const index = begin + column * strides[right];
      const value = index < arrived ? values[index] : before?.(column, upwards);
      if (value === undefined) continue;
      const pixel = 4 * (row * width + column);
      const level = (value - low) * scale;
      if (value - value === 0) {
        const colour = level <= 0 ? 0 : level >= 255 ? 1020 : 4 * Math.round(level);
        pixels[pixel] = colours[colour] ?? 0;
        pixels[pixel + 1] = colours[colour + 1] ?? 0;
        pixels[pixel + 2] = colours[colour + 2] ?? 0;
        pixels[pixel + 3] = 255;
      } else if (Number.isNaN(value)) {
        missing = true;
      } else {
        infinite = true;
        pixels.set(INFINITE, pixel);
        pixels[pixel + 3] = 255;
      }
    }
  }
  return { pixels, width, height, missing, infinite };
}

/** The values of the preview at places of the plane, while not all of the volume is there. */
function coarser(
  volume: Volume,
  channel: number,
  axis: Axis,
  at: number,
): ((right: number, up: number) => number | undefined) | null {
  const { preview, size } = volume;
  if (!preview || volume.arrived === volume.values.length) return null;
  const [right, up] = axesOf(axis);
  const offsets = (along: Axis) =>
    Array.from({ length: size[along] }, (_, n) => previewIndex(volume, preview, along, n) * preview.strides[along]);
  const first = channel * preview.channelStride + previewIndex(volume, preview, axis, at) * preview.strides[axis];
  const [columns, rows] = [offsets(right), offsets(up)];
  return (column, row) => preview.values[first + (columns[column] ?? 0) + (rows[row] ?? 0)];
}

/** What is seen of a plane: all of it at a zoom of 1, else the part about a voxel. */
export interface View {
  readonly zoom: number;
  readonly centre: Place;
}

/** Where a plane's picture begins along one of its sides, in shares of the frame, and how long it is. */
export function shownPart(length: number, zoom: number, about: number): { begin: number; span: number } {
  const begin = 0.5 - ((about + 0.5) / length) * zoom;
  return { begin: Math.max(1 - zoom, Math.min(0, begin)), span: zoom };
}

/** The voxel under a point of a plane's frame, in shares of its width and height from the top left. */
export function placeIn(volume: Volume, axis: Axis, place: Place, view: View, x: number, y: number): Place {
  const [right, up] = axesOf(axis);
  const along = (of: Axis, share: number) => {
    const { begin, span } = shownPart(volume.size[of], view.zoom, view.centre[of]);
    return Math.floor(((share - begin) / span) * volume.size[of]);
  };
  const next: [number, number, number] = [...place];
  next[right] = along(right, x);
  next[up] = along(up, 1 - y);
  return inside(volume, next);
}

const MOST_ZOOM = 32;

/** Closer by a factor, so that what lies under a point of the frame stays there. */
export function zoomed(volume: Volume, axis: Axis, view: View, by: number, x: number, y: number): View {
  const zoom = Math.max(1, Math.min(MOST_ZOOM, view.zoom * by));
  const centre: [number, number, number] = [...view.centre];
  const [right, up] = axesOf(axis);
  for (const [of, share] of [
    [right, x],
    [up, 1 - y],
  ] as const) {
    const { begin } = shownPart(volume.size[of], view.zoom, view.centre[of]);
    const under = (share - begin) / view.zoom;
    centre[of] = ((0.5 - share) / zoom + under) * volume.size[of] - 0.5;
  }
  return kept(volume, { zoom, centre });
}

/** The view after its picture was dragged by shares of the frame, to the right and downwards. */
export function panned(volume: Volume, axis: Axis, view: View, x: number, y: number): View {
  const [right, up] = axesOf(axis);
  const centre: [number, number, number] = [...view.centre];
  centre[right] -= (x / view.zoom) * volume.size[right];
  centre[up] += (y / view.zoom) * volume.size[up];
  return kept(volume, { zoom: view.zoom, centre });
}

/** The view with its centre where the frame is full: else a drag back would first have to make up for one too far. */
function kept({ size }: Volume, { zoom, centre }: View): View {
  const along = (axis: Axis) => {
    const half = size[axis] / zoom / 2;
    return Math.max(half - 0.5, Math.min(size[axis] - half - 0.5, centre[axis]));
  };
  return { zoom, centre: [along(0), along(1), along(2)] };
}
