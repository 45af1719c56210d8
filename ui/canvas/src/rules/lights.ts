/** What a node's card says of its state: what the run shown does with it, else what a run would do. */

import type { Change, NodeStatus, NodeForecast, ProgressInfo, RunInfo } from '../protocol';
import { count, duration, rate } from './figures';

export type LightState =
  'idle' | 'fresh' | 'stale' | 'off' | NodeStatus['state'] | 'left-out' | Change['change'] | 'same';

export interface Light {
  readonly state: LightState;
  /** One word or two. */
  readonly word: string;
  /** How long it took, or what is left. */
  readonly time: string;
  /** A line below: what was made, why it runs, what went wrong. */
  readonly detail: string;
  /** All of it, for a tooltip. */
  readonly full: string;
  /** A problem keeps it from running. */
  readonly blocked: boolean;
  /** 0 to 1 while running with a known end, null otherwise. */
  readonly share: number | null;
}

/** Each state in a word or two. */
export const STATE_WORDS: Readonly<Record<LightState, string>> = {
  idle: 'Not checked yet',
  off: 'Left out',
  fresh: 'Up to date',
  stale: 'Will run',
  queued: 'Queued',
  waiting: 'Waiting',
  running: 'Running',
  done: 'Done',
  cached: 'Cached',
  failed: 'Failed',
  cancelled: 'Cancelled',
  skipped: 'Skipped',
  'left-out': 'Left out',
  added: 'Added',
  removed: 'Removed',
  changed: 'Changed',
  same: 'Same',
};

/** `on spark (profile cluster)`; the backend alone when there is nothing to explain. */
export function whereItRuns({ backend, backend_reason }: NodeForecast): string {
  return backend_reason ? `on ${backend} (${backend_reason})` : `on ${backend}`;
}

export function isActive(run: RunInfo | null): boolean {
  return run !== null && (run.state === 'starting' || run.state === 'running' || run.state === 'stuck');
}

/** The state that a node's card shows. */
export function lightState(
  status: NodeStatus | undefined,
  forecast: NodeForecast | undefined,
  run: RunInfo | null,
): LightState {
  const expected: LightState = forecast ? (forecast.fresh ? 'fresh' : 'stale') : 'idle';
  if (!status || !run) return expected;
  if (isActive(run)) return status.state;
  const made = status.state === 'done' || status.state === 'cached';
  if (!made) {
    // A run that was lost leaves states that nothing moves on any more.
    const over = status.state === 'failed' || status.state === 'cancelled' || status.state === 'skipped';
    return over ? status.state : expected;
  }
  // A forecast from before the run's end does not know yet what the run made.
  const knows = forecast !== undefined && (status.state === 'cached' || forecast.last?.run_id === run.run_id);
  return knows && !forecast.fresh ? 'stale' : status.state;
}

/** A node that takes no part in runs. */
export function unlit(word: string, detail: string): Light {
  return { state: 'off', word, time: '', detail, share: null, blocked: false, full: inOneLine([word, detail]) };
}

/** A node's state in words. `now` in seconds since the epoch; `blocker` is a problem that keeps it from running. */
export function light(
  status: NodeStatus | undefined,
  forecast: NodeForecast | undefined,
  run: RunInfo | null,
  now: number,
  blocker?: string,
): Light {
  const state = lightState(status, forecast, run);
  const word = STATE_WORDS[state];
  if (state === 'running') return running(status, word, now);
  if (blocker !== undefined && (state === 'idle' || state === 'stale'))
    return {
      state,
      word: 'Not ready',
      time: '',
      detail: blocker,
      share: null,
      blocked: true,
      full: inOneLine(['Not ready', blocker]),
    };
  const detail = detailOf(state, status, forecast);
  const ended = state === 'done' || state === 'failed' || state === 'cancelled';
  const time = ended && status?.started && status.ended ? duration(status.ended - status.started) : '';
  const hint = state === 'failed' && status?.failure ? status.failure.hint : '';
  return { state, word, time, detail, share: null, blocked: false, full: inOneLine([word, time, detail, hint]) };
}

/** The state of a node in the run that a picture shows, whatever a run would do today. */
export function recorded(status: NodeStatus | undefined, run: RunInfo | null, now: number): Light {
  // An active run's states are shown as they are.
  if (status && run) return light(status, undefined, { ...run, state: 'running' }, now);
  return still('left-out', 'This run was not asked for it');
}

/** What became of a node from one document to another; nothing, where it is the same in both. */
export function compared(change: Change | undefined): Light {
  return change ? still(change.change, change.detail) : still('same', '');
}

function still(state: LightState, detail: string): Light {
  const word = STATE_WORDS[state];
  return { state, word, time: '', detail, share: null, blocked: false, full: inOneLine([word, detail]) };
}

function running(status: NodeStatus | undefined, word: string, now: number): Light {
  const progress = status?.progress ?? null;
  const share = progress?.share ?? null;
  const elapsed = status?.started ? duration(now - status.started) : '';
  const left = progress?.seconds_left ?? null;
  const time = left === null ? elapsed : `${duration(left)} left`;
  const amount = progress ? amountOf(progress) : '';
  const speed = progress?.rate ? rate(progress.rate) : '';
  const phase = progress?.phase ?? '';
  const label = progress?.label || (phase ? '' : (status?.reason ?? ''));
  const again = status && status.attempt > 1 ? `attempt ${status.attempt}` : '';
  return {
    state: 'running',
    word: phase || amount || word,
    time,
    // The figure that matters first: a card's line is cut off at its end.
    detail: phase ? inOneLine([again, label, speed, amount]) : inOneLine([again, speed, label]),
    share,
    blocked: false,
    full: inOneLine([word, again, phase, amount, speed, time, label]),
  };
}

/** `1,234 / 2,000 volumes`; nothing while nothing is counted. */
export function amountOf({ done, total, unit, counts }: ProgressInfo): string {
  if (!counts) return '';
  const of = total === null ? count(done) : `${count(done)} / ${count(total)}`;
  return unit ? `${of} ${unit}` : of;
}

/** Why it runs, waits, is cached or was left; nothing once it ran: why it had to is of no interest any more. */
export function reasonOf({ state, reason, failure }: NodeStatus): string {
  if (state === 'done') return '';
  return state === 'failed' && failure ? '' : reason;
}

function detailOf(state: LightState, status: NodeStatus | undefined, forecast: NodeForecast | undefined): string {
  switch (state) {
    case 'idle':
    case 'off':
    case 'running':
      return '';
    case 'fresh':
      return forecast?.last?.made ?? '';
    case 'stale':
      return forecast?.reason ?? '';
    case 'done':
      return status?.made ?? '';
    case 'cached':
      return status?.made || (status?.reason ?? '');
    case 'failed':
      return status?.failure?.message ?? status?.reason ?? '';
    case 'queued':
    case 'waiting':
    case 'cancelled':
    case 'skipped':
      return status?.reason ?? '';
    case 'left-out':
    case 'added':
    case 'removed':
    case 'changed':
    case 'same':
      return '';
  }
}

function inOneLine(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' · ');
}
