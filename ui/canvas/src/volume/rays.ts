/**
 * The rendering's geometry, without anything that draws. The volume is a box about the origin whose longest side is 1; X goes
 * to the right, Y into the picture and Z upwards, until it is turned.
 */

import { extent, valueAt, type Place, type Triple, type Volume } from './volume';

/** From where the box is seen: turned about Z, then from so far above, in radians. */
export interface Camera {
  readonly azimuth: number;
  readonly elevation: number;
  readonly zoom: number;
}

export const FIRST_LOOK: Camera = { azimuth: 0.6, elevation: 0.45, zoom: 1 };

/** What points to the right, upwards and into the picture. */
export interface Directions {
  readonly right: Triple;
  readonly up: Triple;
  readonly into: Triple;
}

export function directions({ azimuth, elevation }: Camera): Directions {
  const [ca, sa, ce, se] = [Math.cos(azimuth), Math.sin(azimuth), Math.cos(elevation), Math.sin(elevation)];
  return { right: [ca, sa, 0], up: [-sa * se, ca * se, ce], into: [-sa * ce, ca * ce, -se] };
}

/** The box's sides. */
export function sides(volume: Volume): Triple {
  const [x, y, z] = extent(volume);
  const most = Math.max(x, y, z);
  return [x / most, y / most, z / most];
}

/** Half the height of a picture into which the box fits however it is turned; half its width, where that is less. */
export function reach(box: Triple, { zoom }: Camera): number {
  return (1.04 * Math.hypot(...box)) / 2 / zoom;
}

/** A point in the picture: from -1 to 1 along its shorter side, upwards and to the right. */
export function project(point: Triple, look: Directions, far: number): readonly [number, number] {
  return [dot(point, look.right) / far, dot(point, look.up) / far];
}

/** Between which distances a ray is in the box about the origin; null where it passes by. */
export function boxHit(from: Triple, towards: Triple, box: Triple): readonly [number, number] | null {
  let [near, far] = [-Infinity, Infinity];
  for (const axis of [0, 1, 2] as const) {
    const [start, step, half] = [from[axis], towards[axis], box[axis] / 2];
    if (step === 0) {
      if (Math.abs(start) > half) return null;
      continue;
    }
    const [a, b] = [(-half - start) / step, (half - start) / step];
    near = Math.max(near, Math.min(a, b));
    far = Math.min(far, Math.max(a, b));
  }
  return near < far ? [near, far] : null;
}

/** The middle of a voxel in the box. */
export function pointOf({ size }: Volume, box: Triple, place: Place): Triple {
  const along = (axis: 0 | 1 | 2) => ((place[axis] + 0.5) / size[axis] - 0.5) * box[axis];
  return [along(0), along(1), along(2)];
}

/** How much a value hides of what lies behind it, from 0 to 1, by its level in the window. */
export interface Opacity {
  readonly density: number;
  /** Both ends of the window are seen, and its middle a little: else a cube of noise about zero would be empty. */
  readonly signed: boolean;
}

/** As in the shader (`gl/shaders.ts`). */
export const FLOOR = 0.03;

export function opacityOf(level: number, { density, signed }: Opacity): number {
  const strength = signed ? Math.abs(2 * level - 1) : level;
  return Math.min(0.999, density * ((signed ? FLOOR : 0) + strength * strength));
}

/** What is left out of the rendering so that one can look inside: all that lies before a voxel, towards the viewer. */
export function isCut(point: Triple, at: Triple, into: Triple): boolean {
  return ([0, 1, 2] as const).every((axis) => (point[axis] - at[axis]) * into[axis] < 0);
}

/**
 * The voxel that one sees at a point of the picture: where half of the light that comes from behind is taken. Null where
 * nothing is seen. `level` is a value's place in the window.
 */
export function picked(
  volume: Volume,
  channel: number,
  camera: Camera,
  at: readonly [number, number],
  level: (value: number) => number,
  opacity: Opacity,
  cut: Place | null,
): Place | null {
  const box = sides(volume);
  const look = directions(camera);
  const far = reach(box, camera);
  const along = (axis: 0 | 1 | 2) => (at[0] * look.right[axis] + at[1] * look.up[axis]) * far - 2 * look.into[axis];
  const from: Triple = [along(0), along(1), along(2)];
  const hit = boxHit(from, look.into, box);
  if (!hit) return null;
  const corner = cut && pointOf(volume, box, cut);
  const step = 1 / (2 * Math.max(...volume.size));
  let light = 1;
  for (let distance = hit[0] + step / 2; distance < hit[1]; distance += step) {
    const point: Triple = [
      from[0] + distance * look.into[0],
      from[1] + distance * look.into[1],
      from[2] + distance * look.into[2],
    ];
    if (corner && isCut(point, corner, look.into)) continue;
    const index = (axis: 0 | 1 | 2) =>
      Math.max(0, Math.min(volume.size[axis] - 1, Math.floor((point[axis] / box[axis] + 0.5) * volume.size[axis])));
    const place: Place = [index(0), index(1), index(2)];
    const value = valueAt(volume, channel, place);
    if (value === undefined || !Number.isFinite(value)) continue;
    light *= (1 - opacityOf(level(value), opacity)) ** (100 * step);
    if (light < 0.5) return place;
  }
  return null;
}

function dot(a: Triple, b: Triple): number {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
