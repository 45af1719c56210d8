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

/** A time that is not known exactly, as `engine.text.between`: `12 min 00 s to 25 min 00 s`, `up to 3.0 s`. */
export function between(low: number, high: number): string {
  return range(duration(low), duration(high), duration(high), low);
}

/** `12.40 USD`, as `engine.text.money`. */
export function money(amount: number, currency = ''): string {
  // 0.0996 of two digits is 0.1, which has two decimals as all from there on.
  const whole = Number(amount.toPrecision(2)) >= 0.1 || amount === 0;
  const digits = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  const shown = whole ? amount.toLocaleString('en-US', digits) : String(Number(amount.toPrecision(2)));
  return `${amount > 0 && amount < LEAST_MONEY ? `<${LEAST_MONEY}` : shown} ${currency}`.trimEnd();
}

/** Of less nobody wants to know how much it is. */
const LEAST_MONEY = 0.0001;

/** An amount that is not known exactly, as `engine.text.money_between`: `0.08 to 0.16 USD`. */
export function moneyBetween(low: number, high: number, currency = ''): string {
  return range(money(low), money(high), money(high, currency), low);
}

function range(first: string, last: string, named: string, low: number): string {
  if (first === last) return `about ${named}`;
  return low <= 0 ? `up to ${named}` : `${first} to ${named}`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** `512/s`, or `3.2/min` for what takes long. */
export function rate(perSecond: number): string {
  if (perSecond <= 0) return '';
  return perSecond >= 0.5 ? `${count(perSecond)}/s` : `${count(perSecond * 60)}/min`;
}
