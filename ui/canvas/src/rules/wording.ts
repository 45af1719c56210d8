/** Sizes, times and messages as a person reads them. */

import { count } from './figures';

const PLAIN_WORD = /^[a-z]+(?:['-][a-z]+)*(?=[ ,;.!?…]*(?: |$))/;

/** `1 volume`, `2,000 volumes`; a unit that is no plural ("MB") stays as it is. */
export function plural(amount: number, noun: string): string {
  if (!noun) return count(amount);
  return `${count(amount)} ${amount === 1 ? singular(noun) : noun}`;
}

/** `volume` of `volumes`, `batch` of `batches`; `MB` of `MB`. As `engine.text.plural`. */
export function singular(noun: string): string {
  if (!noun.endsWith('s') || noun.length <= 2) return noun;
  return noun.slice(0, noun.endsWith('ches') ? -2 : -1);
}

/** Bytes in powers of a thousand: `720 MB`, `1.2 GB`. */
export function size(bytes: number): string {
  let amount = bytes;
  let unit = 'bytes';
  for (const larger of ['kB', 'MB', 'GB', 'TB']) {
    if (amount < 999.5) break;
    amount /= 1000;
    unit = larger;
  }
  const whole = unit === 'bytes' || amount >= 9.95;
  return `${whole ? count(Math.round(amount)) : amount.toFixed(1)} ${unit}`;
}

/** How long ago a moment (seconds since the epoch) was: `just now`, `5 min ago`, `3 days ago`, else its date. */
export function ago(moment: number, now: number): string {
  const s = Math.max(0, now - moment);
  if (s < 45) return 'just now';
  if (s < 3570) return `${Math.max(1, Math.round(s / 60))} min ago`;
  if (s < 84600) return `${Math.round(s / 3600)} h ago`;
  if (s < 30 * 86400) return plural(Math.max(1, Math.round(s / 86400)), 'days') + ' ago';
  return dated(moment);
}

function dated(moment: number): string {
  const at = new Date(moment * 1000);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** The local time of day of a moment: `14:03:22`. */
export function timeOfDay(moment: number): string {
  const at = new Date(moment * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A message as a sentence: Python's begin small, since the command line puts the place before them. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  const first = headline(trimmed);
  return /[.!?…:]$/.test(first) ? first : `${first}.`;
}

/** With a capital at its beginning, unless that is a name: as `engine.text.headline`, which says why. */
export function headline(message: string): string {
  return PLAIN_WORD.test(message) ? capitalised(message) : message;
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}
