/** Figures in words, short and steady in width. */

/** `1,234`, `12.5`, `0.031`. */
export function count(value: number): string {
  const digits = Math.abs(value) >= 100 || Number.isInteger(value) ? 0 : Math.abs(value) >= 1 ? 1 : 3;
  return value.toLocaleString('en-US', { maximumFractionDigits: digits });
}

/** `0.4 s`, `12 s`, `1 min 05 s`, `2 h 03 min`, `2 days 7 h`: as `engine.text.duration`. */
export function duration(seconds: number): string {
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${(Math.floor(s * 10 + 0.5) / 10).toFixed(1)} s`;
  const whole = Math.floor(s + 0.5);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 48 * 3600) return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
  return `${Math.floor(whole / 86400)} days ${Math.floor((whole % 86400) / 3600)} h`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** `512/s`, or `3.2/min` for what takes long. */
export function rate(perSecond: number): string {
  if (perSecond <= 0) return '';
  return perSecond >= 0.5 ? `${count(perSecond)}/s` : `${count(perSecond * 60)}/min`;
}
