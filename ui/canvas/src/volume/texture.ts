/** A channel of a volume as a graphics card takes it: every voxel, as half-floats about the middle of the usual window. */

import { halfBits } from './half';
import type { Range } from './ranges';
import type { Axis, Volume } from './volume';

/** Stands for what is no finite number: so far below all others that whatever is mixed with it is seen as missing, too. */
export const LOST = -60_000;
/** The other values are kept between minus and plus this, where the ends of the usual window are -1 and 1. */
export const MOST = 60;

/** How values are sent to the card: as their distance to a middle, in halves of the usual window. */
export interface Scale {
  readonly middle: number;
  readonly half: number;
}

export function scaleOf({ low, high }: Range): Scale {
  return { middle: (low + high) / 2, half: (high - low) / 2 };
}

/** The volume's axes in the order in which its numbers lie, the fastest one first. */
export function textureAxes({ strides }: Volume): readonly [Axis, Axis, Axis] {
  return strides[0] <= strides[2] ? [0, 1, 2] : [2, 1, 0];
}

/** Layers `from` to `to` of the channel along the slowest axis. */
export function layers(
  volume: Volume,
  channel: number,
  scale: Scale,
  from: number,
  to: number,
): Uint16Array<ArrayBuffer> {
  const { size, strides, channelStride, values } = volume;
  const [fast, second, slow] = textureAxes(volume);
  const out = new Uint16Array((to - from) * size[second] * size[fast]);
  const [lost, factor] = [halfBits(LOST), 1 / scale.half];
  let at = 0;
  for (let layer = from; layer < to; layer += 1) {
    for (let row = 0; row < size[second]; row += 1) {
      let index = channel * channelStride + layer * strides[slow] + row * strides[second];
      for (let column = 0; column < size[fast]; column += 1) {
        const value = values[index] ?? NaN;
        const level = (value - scale.middle) * factor;
        out[at] = value - value !== 0 ? lost : halfBits(level > MOST ? MOST : level < -MOST ? -MOST : level);
        at += 1;
        index += strides[fast];
      }
    }
  }
  return out;
}
