/** A volume as the app sends it (`ui/views/route.py`): headers that say what it is like, then its numbers, part by part. */

import type { Triple, Values, Volume } from './volume';

/** What the headers say of a volume that is on its way. */
export interface Form {
  /** The stored volume, in words. */
  readonly shape: string;
  readonly dtype: string;
  /** What is sent of it. */
  readonly size: Triple;
  readonly channels: number;
  readonly steps: Triple;
  readonly spacing: Triple | null;
  readonly type: string;
  /** "C": channels fastest, X slowest; "F": the other way round. */
  readonly order: string;
  readonly bytes: number;
}

const TYPES: Readonly<Record<string, { readonly BYTES_PER_ELEMENT: number; new (buffer: ArrayBuffer): Values }>> = {
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  float32: Float32Array,
  float64: Float64Array,
};

export function formOf(headers: { get(name: string): string | null }): Form {
  const text = (name: string) => headers.get(`X-Voxelflow-${name}`) ?? '';
  const [x = 0, y = 0, z = 0, channels = 0] = numbers(text('Size'));
  const form: Form = {
    shape: text('Shape').replaceAll(',', ' x '),
    dtype: text('Dtype'),
    size: [x, y, z],
    channels,
    steps: triple(text('Steps')) ?? [1, 1, 1],
    spacing: triple(text('Spacing')),
    type: text('Type'),
    order: text('Order'),
    bytes: Number(text('Bytes')),
  };
  const width = TYPES[form.type]?.BYTES_PER_ELEMENT;
  if (width === undefined) throw new Error(`The app sent numbers of an unknown type (${form.type}).`);
  if (x * y * z * channels * width !== form.bytes) throw new Error('The app sent no volume.');
  return form;
}

function numbers(text: string): number[] {
  return text === '' ? [] : text.split(',').map(Number);
}

function triple(text: string): Triple | null {
  const [x, y, z] = numbers(text);
  return x !== undefined && y !== undefined && z !== undefined ? [x, y, z] : null;
}

/** Takes the parts in their order. */
export class Arrival {
  private readonly bytes: Uint8Array;
  private readonly values: Values;
  private at = 0;

  /** Raises `RangeError` where the browser has not so much memory. */
  constructor(readonly form: Form) {
    const Kind = TYPES[form.type] ?? Uint8Array;
    const buffer = new ArrayBuffer(form.bytes);
    this.bytes = new Uint8Array(buffer);
    this.values = new Kind(buffer);
  }

  take(part: Uint8Array): void {
    if (this.at + part.length > this.bytes.length) throw new Error('The app sent more than the volume.');
    this.bytes.set(part, this.at);
    this.at += part.length;
  }

  /** From 0 to 1. */
  get share(): number {
    return this.form.bytes === 0 ? 1 : this.at / this.form.bytes;
  }

  /** No more parts come. */
  end(): void {
    if (this.at < this.form.bytes) throw new Error('The volume was cut short.');
  }

  /** The volume as far as it has arrived. Its numbers are shared with later ones, and not copied. */
  volume(preview: Volume | null): Volume {
    const { size, channels, steps, spacing, order } = this.form;
    const [x, y, z] = size;
    const [strides, channelStride]: [Triple, number] =
      order === 'F' ? [[1, x, x * y], x * y * z] : [[y * z * channels, z * channels, channels], 1];
    const arrived = Math.floor(this.at / this.values.BYTES_PER_ELEMENT);
    return { size, channels, steps, spacing, values: this.values, strides, channelStride, arrived, preview };
  }
}
