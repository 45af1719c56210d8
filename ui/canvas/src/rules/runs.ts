/** A run in words and figures. */

import type { NodeStatus, RunFigure, RunInfo } from '../protocol';

export interface Tally {
  readonly finished: number;
  readonly total: number;
  readonly failed: number;
}

const FINISHED: ReadonlySet<NodeStatus['state']> = new Set(['done', 'cached', 'failed', 'cancelled', 'skipped']);

/** How many tasks of the run have come to an end. */
export function tally(status: Readonly<Record<string, NodeStatus>>): Tally {
  const states = Object.values(status).map(({ state }) => state);
  return {
    finished: states.filter((state) => FINISHED.has(state)).length,
    total: states.length,
    failed: states.filter((state) => state === 'failed').length,
  };
}

/** Seconds that the run's attempts have taken together by `now`, or took. */
export function elapsed(run: RunInfo, now: number): number {
  return Math.max(0, (run.ended ?? now) - (run.started ?? run.created) - run.paused);
}

export const RUN_WORDS: Readonly<Record<RunInfo['state'], string>> = {
  starting: 'Starting',
  running: 'Running',
  stuck: 'Stuck',
  done: 'Done',
  failed: 'Failed',
  cancelled: 'Cancelled',
  lost: 'Lost',
};

/** What an ended run's state means, for those who have not met it before. */
export const RUN_MEANINGS: Readonly<Record<RunInfo['state'], string>> = {
  starting: 'The run’s process is starting.',
  running: 'The run is at work; it goes on when this page is closed.',
  stuck: 'The run’s process does nothing any more. Cancel the run, then resume it: what was finished is kept.',
  done: 'All nodes have come to a good end.',
  failed: 'A node failed. What was finished is kept: resume the run when the cause is fixed.',
  cancelled: 'The run was cancelled. What was finished is kept: resume it to go on.',
  lost: 'The run’s process is gone, perhaps with the computer’s restart. Resume it: what was finished is kept.',
};

/** Whether there is something left that resuming the run would do. */
export function canResume(run: RunInfo): boolean {
  return run.state === 'failed' || run.state === 'cancelled' || run.state === 'lost';
}

/** The address of a run's page, relative to the page of the editor. */
export function runAddress(runId: string): string {
  return `run?run=${encodeURIComponent(runId)}`;
}

/** A figure of a model: `0.9023`, `33,368,897`. */
export function figureText(value: number): string {
  if (Math.abs(value) >= 1e15) return Number(value.toPrecision(4)).toExponential();
  if (Number.isInteger(value)) return value.toLocaleString('en-US');
  return Math.abs(value) >= 1000
    ? value.toLocaleString('en-US', { maximumFractionDigits: 0 })
    : String(Number(value.toPrecision(4)));
}

interface FigureChange {
  sign: 'more' | 'less' | 'same';
  /** `better, was 0.9023`; "" where there is nothing to compare with. */
  words: string;
  /** Whether it is better; null where it reads like the figure before. */
  verdict: boolean | null;
}

/** What became of a figure since the run before. Of two that read alike a difference would say nothing. */
export function figureChange({ value, before, better }: RunFigure): FigureChange {
  if (before === null) return { sign: 'same', words: '', verdict: null };
  const was = figureText(before);
  if (better === null || was === figureText(value)) return { sign: 'same', words: 'as before', verdict: null };
  return {
    sign: value > before ? 'more' : 'less',
    words: `${better ? 'better' : 'worse'}, was ${was}`,
    verdict: better,
  };
}
