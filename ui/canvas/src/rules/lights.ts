/** What a node's card says of its state: what the run shown does with it, else what a run would do. */

import type { NodeStatus, Outlook, ProgressInfo, RunInfo } from '../protocol';
import { count, duration, rate } from './figures';

export type LightState = 'idle' | 'fresh' | 'stale' | NodeStatus['state'];

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

const WORDS: Readonly<Record<LightState, string>> = {
  idle: 'Not checked yet',
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
};

/** `on spark (profile cluster)`; the backend alone when there is nothing to explain. */
export function whereItRuns({ backend, backend_reason }: Outlook): string {
  return backend_reason ? `on ${backend} (${backend_reason})` : `on ${backend}`;
}

export function isActive(run: RunInfo | null): boolean {
  return run !== null && (run.state === 'starting' || run.state === 'running');
}

/** The state that a node's card shows. */
export function lightState(
  status: NodeStatus | undefined,
  outlook: Outlook | undefined,
  run: RunInfo | null,
): LightState {
  const foreseen: LightState = outlook ? (outlook.fresh ? 'fresh' : 'stale') : 'idle';
  if (!status || !run) return foreseen;
  if (isActive(run)) return status.state;
  const made = status.state === 'done' || status.state === 'cached';
  if (!made) {
    // A run that was lost leaves states that nothing moves on any more.
    const over = status.state === 'failed' || status.state === 'cancelled' || status.state === 'skipped';
    return over ? status.state : foreseen;
  }
  // What was foreseen before the run ended does not know yet what the run made.
  const knows = outlook !== undefined && (status.state === 'cached' || outlook.last?.run_id === run.run_id);
  return knows && !outlook.fresh ? 'stale' : status.state;
}

/** A node's state in words. `now` in seconds since the epoch; `blocker` is a problem that keeps it from running. */
export function light(
  status: NodeStatus | undefined,
  outlook: Outlook | undefined,
  run: RunInfo | null,
  now: number,
  blocker?: string,
): Light {
  const state = lightState(status, outlook, run);
  const word = WORDS[state];
  if (state === 'running') return running(status, word, now);
  if (blocker !== undefined && (state === 'idle' || state === 'stale'))
    return {
      state,
      word: 'Not ready',
      time: '',
      detail: blocker,
      share: null,
      blocked: true,
      full: sentence(['Not ready', blocker]),
    };
  const detail = detailOf(state, status, outlook);
  const ended = state === 'done' || state === 'failed' || state === 'cancelled';
  const time = ended && status?.started && status.ended ? duration(status.ended - status.started) : '';
  const hint = state === 'failed' && status?.failure ? status.failure.hint : '';
  return { state, word, time, detail, share: null, blocked: false, full: sentence([word, time, detail, hint]) };
}

function running(status: NodeStatus | undefined, word: string, now: number): Light {
  const progress = status?.progress ?? null;
  const share = progress?.total ? Math.min(1, Math.max(0, progress.done / progress.total)) : null;
  const elapsed = status?.started ? duration(now - status.started) : '';
  const left = progress?.seconds_left ?? null;
  const time = left === null ? elapsed : `${duration(left)} left`;
  const amount = progress ? amountOf(progress) : '';
  const speed = progress?.rate ? rate(progress.rate) : '';
  const label = progress?.label || (status?.reason ?? '');
  const again = status && status.attempt > 1 ? `attempt ${status.attempt}` : '';
  return {
    state: 'running',
    word: amount || word,
    time,
    detail: sentence([again, speed, label]),
    share,
    blocked: false,
    full: sentence([word, again, amount, speed, time, label]),
  };
}

/** `1,234 / 2,000 volumes` */
export function amountOf({ done, total, unit }: ProgressInfo): string {
  const of = total === null ? count(done) : `${count(done)} / ${count(total)}`;
  return unit ? `${of} ${unit}` : of;
}

function detailOf(state: LightState, status: NodeStatus | undefined, outlook: Outlook | undefined): string {
  switch (state) {
    case 'idle':
    case 'running':
      return '';
    case 'fresh':
      return outlook?.last?.made ?? '';
    case 'stale':
      return outlook?.reason ?? '';
    case 'done':
      // Why it had to run is of no interest any more.
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
  }
}

function sentence(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' · ');
}
