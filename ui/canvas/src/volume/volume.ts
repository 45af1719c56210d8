/** A volume in memory: its numbers, how they lie there, and how many of them have arrived. */

export type Values =
  | Uint8Array<ArrayBuffer>
  | Int8Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Int16Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
  | Float64Array<ArrayBuffer>;

export type Axis = 0 | 1 | 2;
export const AXES = ['X', 'Y', 'Z'] as const;

/** Something along X, Y and Z. */
export type Triple = readonly [number, number, number];

/** A voxel, counted from 0. */
export type Place = Triple;

export interface Volume {
  /** Voxels along X, Y and Z. */
  readonly size: Triple;
  readonly channels: number;
  /** How many voxels of the stored volume one of these stands for, along each axis. */
  readonly steps: Triple;
  /** Millimetres from voxel to voxel of the stored volume; null where nobody says. */
  readonly spacing: Triple | null;
  readonly values: Values;
  /** From a value to the next one along X, Y and Z, and to that of the next channel. */
  readonly strides: Triple;
  readonly channelStride: number;
  /** So many of `values` are there, from the first on. */
  readonly arrived: number;
  /** The same volume with fewer voxels, for what has not arrived. */
  readonly preview: Volume | null;
}

export function isWhole(volume: Volume): boolean {
  return volume.arrived === volume.values.length;
}

/** The value of a voxel; where it has not arrived that of the preview's nearest one, undefined without one. */
export function valueAt(volume: Volume, channel: number, [x, y, z]: Place): number | undefined {
  const { strides, preview } = volume;
  const at = channel * volume.channelStride + x * strides[0] + y * strides[1] + z * strides[2];
  if (at < volume.arrived) return volume.values[at];
  if (!preview) return undefined;
  const near = (axis: Axis, index: number) => previewIndex(volume, preview, axis, index);
  return valueAt(preview, channel, [near(0, x), near(1, y), near(2, z)]);
}

/** The voxel of the preview that stands for voxel `index` along an axis. */
export function previewIndex(volume: Volume, preview: Volume, axis: Axis, index: number): number {
  const there = Math.round((index * volume.steps[axis]) / preview.steps[axis]);
  return Math.min(preview.size[axis] - 1, there);
}

/** The middle voxel. */
export function centre({ size }: Volume): Place {
  return [Math.floor(size[0] / 2), Math.floor(size[1] / 2), Math.floor(size[2] / 2)];
}

/** The place, or the nearest one that the volume has. */
export function inside({ size }: Volume, place: Place): Place {
  const within = (axis: Axis) => Math.max(0, Math.min(size[axis] - 1, place[axis]));
  return [within(0), within(1), within(2)];
}

/** Another place, `by` voxels along an axis, or as far as the volume goes. */
export function moved(volume: Volume, place: Place, axis: Axis, by: number): Place {
  const next: [number, number, number] = [...place];
  next[axis] += by;
  return inside(volume, next);
}

/** Where the voxel lies in the stored volume. */
export function storedPlace({ steps }: Volume, [x, y, z]: Place): Place {
  return [x * steps[0], y * steps[1], z * steps[2]];
}

/** How large a voxel is: in millimetres, or in voxels of the stored volume. */
export function voxelSize({ steps, spacing }: Volume): Triple {
  const [x, y, z] = spacing ?? [1, 1, 1];
  return [x * steps[0], y * steps[1], z * steps[2]];
}

/** How large the volume is: in millimetres, or in voxels of the stored volume. */
export function extent(volume: Volume): Triple {
  const [x, y, z] = voxelSize(volume);
  return [x * volume.size[0], y * volume.size[1], z * volume.size[2]];
}
