/** Figures in words, short and steady in width. */

/** `1,234`, `12.5`, `0.031`. */
export function count(value: number): string {
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 1 ? 1 : 3;
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
}

/** `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`, `2 d 4 h`. */
export function duration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${count(Math.round(s * 10) / 10)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(whole, 60, 'min', 1, 's');
  if (whole < 86400) return pair(whole, 3600, 'h', 60, 'min');
  return pair(whole, 86400, 'd', 3600, 'h');
}

function pair(seconds: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeUnit}${rest > 0 ? ` ${rest} ${smallUnit}` : ''}`;
}

/** `512/s`, or `3.2/min` for what takes long. */
export function rate(perSecond: number): string {
  if (perSecond <= 0) return '';
  return perSecond >= 0.5 ? `${count(perSecond)}/s` : `${count(perSecond * 60)}/min`;
}
