/** A voxel's value, or an end of a window, as people read it. */

export function figure(value: number | undefined, digits = 7): string {
  if (value === undefined) return '…';
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString('en-US');
  return String(Number(value.toPrecision(digits)));
}
