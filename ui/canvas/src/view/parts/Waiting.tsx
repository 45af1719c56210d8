/** What stands in the place of an answer: that it is awaited, or why there is none. */

import type { ReactNode } from 'react';

import type { Asked, Refusal } from './ask';

interface Props<T> {
  asked: Asked<T>;
  /** Back to what could be shown, where that is another thing than what is asked for. */
  onBack?: (() => void) | undefined;
}

export function Waiting<T>({ asked, onBack }: Props<T>) {
  if (asked.problem)
    return (
      <Problem problem={asked.problem}>
        <button type="button" className="btn" onClick={asked.again}>
          Try again
        </button>
        {onBack && (
          <button type="button" className="btn" onClick={onBack}>
            First page
          </button>
        )}
      </Problem>
    );
  return (
    <div className="skeleton-lines" role="status" aria-label="Loading">
      <span className="skeleton skeleton-wide" />
      <span className="skeleton skeleton-wide" />
    </div>
  );
}

export function Problem({ problem, children }: { problem: Refusal; children?: ReactNode }) {
  return (
    <div className="failure" role="alert">
      <p className="failure-message">{problem.message}</p>
      {problem.hint && <p className="failure-hint">{problem.hint}</p>}
      {children}
    </div>
  );
}
