/** What stands in the place of an answer: that it is awaited, or why there is none. */

import type { Asked, Refusal } from './ask';

export function Waiting<T>({ asked }: { asked: Asked<T> }) {
  if (asked.problem) return <Problem problem={asked.problem} />;
  return (
    <div className="skeleton-lines" role="status" aria-label="Loading">
      <span className="skeleton skeleton-wide" />
      <span className="skeleton skeleton-wide" />
    </div>
  );
}

export function Problem({ problem }: { problem: Refusal }) {
  return (
    <div className="failure" role="alert">
      <p className="failure-message">{problem.message}</p>
      {problem.hint && <p className="failure-hint">{problem.hint}</p>}
    </div>
  );
}
