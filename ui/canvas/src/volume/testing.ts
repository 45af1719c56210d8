/** Volumes for tests: value = x + 10 y + 100 z + 1000 channel. */

import { Arrival, formOf } from './arrival';
import type { Triple, Volume } from './volume';

interface Wanted {
  readonly size?: Triple;
  readonly channels?: number;
  readonly order?: 'C' | 'F';
  readonly type?: 'float32' | 'int16';
  readonly steps?: Triple;
  readonly spacing?: Triple;
}

export function headers(wanted: Wanted = {}): Map<string, string> {
  const { size = [4, 3, 2], channels = 2, order = 'C', type = 'float32', steps = [1, 1, 1], spacing } = wanted;
  const bytes = size[0] * size[1] * size[2] * channels * (type === 'int16' ? 2 : 4);
  return new Map([
    ['X-Voxelflow-Shape', [...size, channels].join(',')],
    ['X-Voxelflow-Dtype', type],
    ['X-Voxelflow-Size', [...size, channels].join(',')],
    ['X-Voxelflow-Steps', steps.join(',')],
    ['X-Voxelflow-Type', type],
    ['X-Voxelflow-Order', order],
    ['X-Voxelflow-Bytes', String(bytes)],
    ...(spacing ? [['X-Voxelflow-Spacing', spacing.join(',')] as const] : []),
  ]);
}

export function bytesOf(wanted: Wanted = {}): Uint8Array<ArrayBuffer> {
  const { size = [4, 3, 2], channels = 2, order = 'C', type = 'float32' } = wanted;
  const numbers: number[] = [];
  const [X, Y, Z] = size;
  const count = X * Y * Z * channels;
  for (let n = 0; n < count; n += 1) {
    const [x, y, z, c] =
      order === 'F'
        ? [n % X, Math.floor(n / X) % Y, Math.floor(n / (X * Y)) % Z, Math.floor(n / (X * Y * Z))]
        : [
            Math.floor(n / (Y * Z * channels)),
            Math.floor(n / (Z * channels)) % Y,
            Math.floor(n / channels) % Z,
            n % channels,
          ];
    numbers.push(x + 10 * y + 100 * z + 1000 * c);
  }
  const values = type === 'int16' ? new Int16Array(numbers) : new Float32Array(numbers);
  return new Uint8Array(values.buffer);
}

/** All of it; or its first part, and a preview of the rest. */
export function volumeOf(wanted: Wanted = {}, part = Infinity, preview: Volume | null = null): Volume {
  const all = headers(wanted);
  const arrival = new Arrival(formOf({ get: (name) => all.get(name) ?? null }));
  arrival.take(bytesOf(wanted).subarray(0, part));
  return arrival.volume(preview);
}
