/** Problems in words: one with a sign for how bad it is, several as lines of a tooltip. */

import { CircleAlert, Info, TriangleAlert } from 'lucide-react';

import type { Problem } from '../../protocol';
import { sorted } from '../../rules/problems';
import { sentence } from '../../rules/wording';
import { WithCode } from './WithCode';

const SIGNS = { error: CircleAlert, warning: TriangleAlert, info: Info } as const;
const SHOWN_IN_TIP = 5;
const WORDS = { error: 'Error', warning: 'Warning', info: 'Note' } as const;

export function SeveritySign({ severity }: { severity: Problem['severity'] }) {
  const Sign = SIGNS[severity];
  return <Sign size={14} className={`sign sign-${severity}`} role="img" aria-label={WORDS[severity]} />;
}

export function ProblemText({ problem }: { problem: Pick<Problem, 'severity' | 'message' | 'hint'> }) {
  return (
    <>
      <SeveritySign severity={problem.severity} />
      <span className="problem-text">
        <span className="problem-message">
          <WithCode text={sentence(problem.message)} />
        </span>
        {problem.hint && (
          <span className="problem-hint">
            {' '}
            <WithCode text={sentence(problem.hint)} />
          </span>
        )}
      </span>
    </>
  );
}

export function ProblemList({ problems }: { problems: readonly Problem[] }) {
  const lines = sorted(problems);
  return (
    <ul className="tip-problems">
      {lines.slice(0, SHOWN_IN_TIP).map(({ code, severity, message, hint, port, parameter }) => (
        <li key={`${code} ${port ?? ''} ${parameter ?? ''} ${message}`} data-severity={severity}>
          {message}
          {hint !== '' && <span className="tip-muted"> {hint}</span>}
        </li>
      ))}
      {lines.length > SHOWN_IN_TIP && <li className="tip-muted">and {lines.length - SHOWN_IN_TIP} more</li>}
    </ul>
  );
}
