/** What a person has written into the run dialog for a sweep: values by parameter, as `--set` of the command takes them. */

import type { ForecastSweep, Search } from '../protocol';
import { NO_LIMIT, type LimitTexts } from './limit';

export interface SweepRow {
  /** Of a parameter of the pipeline, or `node.parameter`; empty while none is chosen. */
  readonly name: string;
  readonly text: string;
}

export interface Sweep {
  readonly rows: readonly SweepRow[];
  /** Trials at a time. */
  readonly jobs: number;
  /** Null: every combination is tried. */
  readonly search: Search | null;
  /** That of all trials together. */
  readonly limit: LimitTexts;
}

export const MOST_JOBS = 64;
export const MOST_TRIALS = 10_000;
export const EMPTY_SWEEP: Sweep = { rows: [{ name: '', text: '' }], jobs: 1, search: null, limit: NO_LIMIT };
export const USUAL_SEARCH: Search = { trials: 20, figure: 'val_auc', maximise: true };

/** What is typed, by parameter; rows that say nothing are left out. */
export function valuesOf({ rows }: Sweep): Record<string, string> {
  return Object.fromEntries(rows.filter(({ name, text }) => name && text.trim()).map(({ name, text }) => [name, text]));
}

/**
 * Whether something may vary, no parameter stands in two rows, and a search has a figure to go by. What the values are is
 * for Python to read.
 */
export function isComplete(sweep: Sweep): boolean {
  const names = sweep.rows.map(({ name }) => name).filter(Boolean);
  const varies = (text: string) => text.includes(',') || (sweep.search !== null && text.includes('..'));
  if (sweep.search?.figure.trim() === '') return false;
  return new Set(names).size === names.length && Object.values(valuesOf(sweep)).some(varies);
}

/** The question what this sweep would run, up to the node `end`; its limit changes nothing of that. */
export function forecastOf(
  sweep: Sweep,
  document: string,
  profile: string,
  end: string | null,
): Omit<ForecastSweep, 'request'> {
  const { jobs, search } = sweep;
  return { type: 'forecast-sweep', document, profile, end, values: valuesOf(sweep), jobs, search };
}

/** A path beside those that are typed already, in quotes where it would read as several values. */
export function withPath(text: string, path: string): string {
  const typed = text.trim().replace(/,$/, '').trimEnd();
  const value = /[,"[\]{}]/.test(path) ? JSON.stringify(path) : path;
  return typed === '' ? value : `${typed}, ${value}`;
}

/** The last of the paths that are typed: where to begin to look for another. */
export function lastPath(text: string): string {
  const last = /("(?:[^"\\]|\\.)*"|[^,]*)$/.exec(text.trim())?.[1]?.trim() ?? '';
  try {
    return last.startsWith('"') ? String(JSON.parse(last)) : last;
  } catch {
    return '';
  }
}

/** In how many of the trials a node runs; null: not all of them were planned. */
export function timesText(times: number | null, trials: number): string {
  if (trials === 1) return 'in the run';
  if (times === 1) return 'once, for all runs';
  if (times === trials) return 'in each run';
  return times === null ? 'in each run that has other values for it' : `in ${times} of the runs`;
}

/** A number from 1 to `most` as it was typed; null while none is. */
export function countOf(typed: number, most: number): number | null {
  return Number.isNaN(typed) ? null : Math.min(most, Math.max(1, Math.round(typed)));
}
