/** The scale of a chart's axis. Pure. */

export interface Scale {
  at: (value: number) => number;
  ticks: readonly number[];
}

/** Values closer than this, in parts of the larger one, differ by rounding only. */
const ROUNDING = 1e-9;

/** From values to places, with ticks at round values. `whole`: none between whole numbers. */
export function scale(low: number, high: number, from: number, to: number, whole = false): Scale {
  const [a, b] = apart(low, high) ? [low, high] : about(low || 0);
  const rough = (b - a) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const round = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const step = whole ? Math.max(1, round) : round;
  // Ticks are counted: a step added to a large value again and again may leave it as it is, without end.
  const first = Math.ceil(a / step);
  const count = Math.max(0, Math.floor(b / step + 1e-9) - first + 1);
  const ticks = Array.from({ length: count }, (_, n) => (first + n) * step);
  return { at: (value) => from + ((value - a) / (b - a)) * (to - from), ticks };
}

function apart(low: number, high: number): boolean {
  return Number.isFinite(low) && high - low > ROUNDING * Math.max(Math.abs(low), Math.abs(high), 1e-280);
}

/** A range about a single value, wide enough to tell its ends apart. */
function about(value: number): [number, number] {
  const margin = Math.max(0.5, Math.abs(value) * 1e-3);
  return Number.isFinite(value) ? [value - margin, value + margin] : [-0.5, 0.5];
}
