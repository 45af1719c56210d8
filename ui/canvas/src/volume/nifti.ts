/** A volume as the app sends it: a NIfTI-1 file of the axes X, Y, Z and channels (`engine/viewing/pictures.py`). */

export type Values =
  | Uint8Array<ArrayBuffer>
  | Int8Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Int16Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
  | Float64Array<ArrayBuffer>;

export interface Volume {
  /** The whole file. */
  readonly file: ArrayBuffer;
  /** Voxels along X, Y and Z. */
  readonly size: readonly [number, number, number];
  /** How many voxels of the stored volume one of these stands for, along each axis. */
  readonly steps: readonly [number, number, number];
  readonly channels: number;
  /** All values, X fastest, channels slowest. */
  readonly values: Values;
}

export type Place = readonly [number, number, number];

const DATA = 352;

export function readVolume(file: ArrayBuffer): Volume {
  const header = new DataView(file);
  if (file.byteLength < DATA || header.getInt32(0, true) !== 348) throw new Error('The app sent no volume.');
  const length = (axis: number) => Math.max(1, header.getInt16(40 + 2 * axis, true));
  const step = (axis: number) => header.getFloat32(76 + 4 * axis, true);
  const size = [length(1), length(2), length(3)] as const;
  const channels = header.getInt16(40, true) > 3 ? length(4) : 1;
  const values = typed(file, header.getInt16(70, true));
  if (values.length !== size[0] * size[1] * size[2] * channels) throw new Error('The volume was cut short.');
  return { file, size, channels, steps: [step(1), step(2), step(3)], values };
}

function typed(file: ArrayBuffer, type: number): Values {
  switch (type) {
    case 2:
      return new Uint8Array(file, DATA);
    case 4:
      return new Int16Array(file, DATA);
    case 8:
      return new Int32Array(file, DATA);
    case 16:
      return new Float32Array(file, DATA);
    case 64:
      return new Float64Array(file, DATA);
    case 256:
      return new Int8Array(file, DATA);
    case 512:
      return new Uint16Array(file, DATA);
    case 768:
      return new Uint32Array(file, DATA);
    default:
      throw new Error(`The app sent numbers of an unknown type (${type}).`);
  }
}

export function valueAt(volume: Volume, channel: number, [x, y, z]: Place): number {
  const [width, height, depth] = volume.size;
  return volume.values[x + width * (y + height * (z + depth * channel))] ?? NaN;
}

/** The middle voxel. */
export function centre({ size }: Volume): Place {
  return [Math.floor(size[0] / 2), Math.floor(size[1] / 2), Math.floor(size[2] / 2)];
}

/** Where the voxel lies in the stored volume. */
export function storedPlace({ steps }: Volume, [x, y, z]: Place): Place {
  return [Math.round(x * steps[0]), Math.round(y * steps[1]), Math.round(z * steps[2])];
}

export interface Range {
  readonly low: number;
  readonly high: number;
}

const SAMPLED = 20_000;

/** What the ends of the colour map stand for at first, and the least and greatest value of all, of a channel. */
export function ranges(volume: Volume, channel: number, signed: boolean): { window: Range; all: Range } {
  const count = volume.size[0] * volume.size[1] * volume.size[2];
  // An odd step, so that the same column of each row is not met again and again.
  const step = Math.max(1, Math.floor(count / SAMPLED)) | 1;
  const sample: number[] = [];
  for (let at = channel * count; at < (channel + 1) * count; at += step) {
    const value = volume.values[at] ?? NaN;
    if (Number.isFinite(value)) sample.push(value);
  }
  sample.sort((a, b) => a - b);
  const part = (share: number) => sample[Math.min(sample.length - 1, Math.round(share * (sample.length - 1)))] ?? 0;
  const all = wide({ low: part(0), high: part(1) });
  let [low, high] = [part(0.01), part(0.99)];
  if (low === high) [low, high] = [all.low, all.high];
  if (!signed) return { window: wide({ low, high }), all };
  const most = Math.max(Math.abs(low), Math.abs(high));
  const farthest = Math.max(Math.abs(all.low), Math.abs(all.high));
  return { window: wide({ low: -most, high: most }), all: wide({ low: -farthest, high: farthest }) };
}

/** A range that has some length. */
function wide({ low, high }: Range): Range {
  return high > low ? { low, high } : { low: low - 0.5, high: low + 0.5 };
}
