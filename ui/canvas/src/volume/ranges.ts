/** What the colours of a channel stand for: its range of values, and the part of it that is shown. */

import { SMALLER_SIDE } from '../protocol';
import { isWhole, type Volume } from './volume';

export interface Range {
  readonly low: number;
  readonly high: number;
}

export interface Ranges {
  /** From the 1st to the 99th percentile: a few extreme voxels must not make the others one grey. */
  readonly usual: Range;
  readonly all: Range;
  /** Whether the values lie on both sides of zero. The range around a single one does so, where that is near zero. */
  readonly twoSided: boolean;
}

/** What is shown on either side of a value that is the only one: so much, or this share of it where that is more. */
const HALF_WIDTH = 0.5;
const HALF_SHARE = 1e-6;

const SAMPLED = 20_000;

/** The ranges of a channel's finite values, by a sample of them. Of one that is still arriving those of its preview. */
export function ranges(volume: Volume, channel: number): Ranges {
  const { size, strides, channelStride, values, arrived } = isWhole(volume) ? volume : (volume.preview ?? volume);
  const [width, height, depth] = size;
  const count = width * height * depth;
  // An odd step, so that the same column of each row is not met again and again.
  const step = Math.max(1, Math.floor(count / SAMPLED)) | 1;
  const sample: number[] = [];
  for (let number = 0; number < count; number += step) {
    const x = number % width;
    const y = Math.floor(number / width) % height;
    const z = Math.floor(number / (width * height));
    const at = channel * channelStride + x * strides[0] + y * strides[1] + z * strides[2];
    const value = at < arrived ? (values[at] ?? NaN) : NaN;
    if (Number.isFinite(value)) sample.push(value);
  }
  sample.sort((a, b) => a - b);
  const part = (share: number) => sample[Math.min(sample.length - 1, Math.round(share * (sample.length - 1)))] ?? 0;
  const every = { low: part(0), high: part(1) };
  const most = { low: part(0.01), high: part(0.99) };
  const usual = most.high > most.low ? most : every;
  return { usual: wide(usual), all: wide(every), twoSided: isTwoSided(usual) };
}

/** Whether values lie on both sides of zero, and not merely noise on one of them. */
export function isTwoSided({ low, high }: Range): boolean {
  return low < 0 && high > 0 && Math.min(-low, high) > SMALLER_SIDE * Math.max(-low, high);
}

/** The range about zero that holds all of another one. */
export function aboutZero({ low, high }: Range): Range {
  const most = Math.max(Math.abs(low), Math.abs(high));
  return wide({ low: -most, high: most });
}

/** The window after a drag: to the right it gets wider, downwards lower. `shift` false keeps its middle. */
export function dragged({ low, high }: Range, right: number, down: number, shift: boolean): Range {
  const middle = (low + high) / 2 + (shift ? (down * (high - low)) / 200 : 0);
  const half = ((high - low) / 2) * Math.exp((shift ? right : right - down) / 200);
  return { low: middle - half, high: middle + half };
}

/** A range that has some length. */
function wide({ low, high }: Range): Range {
  // Beside 1e17 there is no 1e17 + 0.5.
  const half = Math.max(HALF_WIDTH, Math.abs(low) * HALF_SHARE);
  return high > low ? { low, high } : { low: low - half, high: low + half };
}
