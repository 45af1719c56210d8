/** Numbers of 16 bits: what a graphics card draws a volume of (IEEE 754 binary16). */

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** The bits of the nearest half-float; of two that are as near that with an even last bit. */
export function halfBits(value: number): number {
  float[0] = value;
  const word = bits[0] ?? 0;
  const sign = (word >>> 16) & 0x8000;
  const size = word & 0x7fffffff;
  if (size >= 0x47800000) return sign | (size > 0x7f800000 ? 0x7e00 : 0x7c00);
  if (size >= 0x38800000) return sign | ((size - 0x38000000 + 0x0fff + ((size >>> 13) & 1)) >>> 13);
  if (size < 0x33000000) return sign;
  // Below the least number with a full mantissa: in steps of 2^-24.
  const shift = 126 - (size >>> 23);
  const mantissa = (size & 0x7fffff) | 0x800000;
  const [whole, rest, middle] = [mantissa >>> shift, mantissa & ((1 << shift) - 1), 1 << (shift - 1)];
  return sign | (whole + (rest > middle || (rest === middle && (whole & 1) === 1) ? 1 : 0));
}
