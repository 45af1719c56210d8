/** A problem in words, with a sign for how bad it is. */

import { CircleAlert, Info, TriangleAlert } from 'lucide-react';

import type { Problem } from '../../protocol';
import { sentence } from '../../rules/wording';

const SIGNS = { error: CircleAlert, warning: TriangleAlert, info: Info } as const;
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
        <span className="problem-message">{sentence(problem.message)}</span>
        {problem.hint && <span className="problem-hint"> {sentence(problem.hint)}</span>}
      </span>
    </>
  );
}
