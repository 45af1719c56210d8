/** The limit of a run or a sweep, as a person writes it into the run dialog. */

import type { ProfileInfo, RunLimit } from '../protocol';

/** What stands in the two fields. */
export interface LimitTexts {
  readonly after: string;
  readonly cost: string;
}

const SECONDS: Readonly<Record<string, number>> = {
  d: 86400,
  day: 86400,
  h: 3600,
  hour: 3600,
  m: 60,
  min: 60,
  minute: 60,
  s: 1,
  second: 1,
};

/** Seconds of `3h`, `90 min`, `1h30min`; null when it is no time. As `engine.limit.read_time`. */
export function readTime(text: string): number | null {
  const given = text.trim().toLowerCase();
  let seconds = 0;
  let at = 0;
  for (const part of given.matchAll(/(\d+(?:\.\d+)?)\s*([a-z]+)/g)) {
    const unit = part[2] ?? '';
    const length = SECONDS[unit] ?? SECONDS[unit.replace(/(..)s$/, '$1')]; // `ms` are no minutes
    if (length === undefined || given.slice(at, part.index).trim() !== '') return null;
    seconds += Number(part[1]) * length;
    at = part.index + part[0].length;
  }
  return at === given.length && seconds > 0 && Number.isFinite(seconds) ? seconds : null;
}

export const NO_LIMIT: LimitTexts = { after: '', cost: '' };

/** What the fields show before anything is typed: the limit of the profile. */
export function textsOf(profile: ProfileInfo | undefined): LimitTexts {
  return { after: profile?.stop_after ?? '', cost: String(profile?.stop_at_cost ?? '') };
}

/** What is wrong with each field; empty when nothing is. */
export function objections(texts: LimitTexts, profile: ProfileInfo | undefined): LimitTexts {
  const after =
    texts.after.trim() === '' || readTime(texts.after) !== null ? '' : 'A time such as 3h, 90min or 1h30min.';
  if (texts.cost.trim() === '') return { after, cost: '' };
  if (!profile?.price) return { after, cost: 'What an hour costs is not known: the profile has no price.' };
  return { after, cost: amountOf(texts.cost) === null ? 'An amount above 0, such as 20.' : '' };
}

/** What is sent to Python; null when nothing was typed: then the limit of the profile counts. */
export function limitOf(texts: LimitTexts | null): RunLimit | null {
  return texts && { stop_after: texts.after.trim(), stop_at_cost: amountOf(texts.cost) };
}

function amountOf(text: string): number | null {
  const amount = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(amount) && amount > 0 ? amount : null;
}
