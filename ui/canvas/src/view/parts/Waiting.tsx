/** What stands in the place of an answer: that it is awaited, or why there is none. */

import type { ReactNode } from 'react';

import type { Asked, Refusal } from './ask';
import { Skeleton, type Awaited } from './Skeletons';
import { WithCode } from './WithCode';

interface Props<T> {
  asked: Asked<T>;
  /** What it will be, whose outline is shown meanwhile. */
  as: Awaited;
  /** Back to what could be shown, where that is another thing than what is asked for. */
  onBack?: (() => void) | undefined;
}

export function Waiting<T>({ asked, as, onBack }: Props<T>) {
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
  return <Skeleton of={as} />;
}

export function Problem({ problem, children }: { problem: Refusal; children?: ReactNode }) {
  return (
    <div className="failure" role="alert">
      <p className="failure-message">{problem.message}</p>
      {problem.hint && (
        <p className="failure-hint">
          <WithCode text={problem.hint} />
        </p>
      )}
      {children}
    </div>
  );
}
