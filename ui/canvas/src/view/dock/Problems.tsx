/** Every problem of the pipeline, worst first; each leads to its place. */

import { CircleCheck } from 'lucide-react';
import { useMemo } from 'react';

import { own } from '../../document/own';
import type { Problem } from '../../protocol';
import { nameOf } from '../../rules/ports';
import { sorted } from '../../rules/problems';
import { useApp, useCanvas } from '../../state/hooks';
import { moveFocus } from '../parts/rove';
import { AllowFolder } from '../parts/AllowFolder';
import { ProblemText } from '../parts/ProblemText';

const NONE: readonly Problem[] = [];

export function Problems() {
  const ofDocument = useCanvas((s) => s.problems);
  const ofCatalogue = useCanvas((s) => s.welcome?.problems ?? NONE);
  const problems = useMemo(() => sorted([...ofDocument, ...ofCatalogue]), [ofDocument, ofCatalogue]);
  return (
    <div className="problems">
      {problems.length === 0 && (
        <p className="quiet dock-empty">
          <CircleCheck size={14} aria-hidden className="sign sign-good" /> No problems found.
        </p>
      )}
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- arrows go from button to button */}
      <ul
        aria-label="Problems"
        onKeyDown={(event) => {
          if (moveFocus(event.currentTarget, 'button', event.key)) event.preventDefault();
        }}
      >
        {problems.map((problem, index) => (
          <li key={`${index} ${problem.code}`}>
            <ProblemLine problem={problem} />
            <AllowFolder problem={problem} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function ProblemLine({ problem }: { problem: Problem }) {
  const app = useApp();
  const where = useCanvas((s) => {
    const { node, port, parameter } = problem;
    if (node === null) return parameter ?? '';
    const fields = own(s.types, own(s.doc.nodes, node)?.type ?? '')?.fields;
    const field = fields?.find(({ name }) => name === parameter)?.title ?? parameter ?? port;
    return field === null ? nameOf(s.doc, node) : `${nameOf(s.doc, node)} · ${field}`;
  });
  return (
    <button
      type="button"
      className="problem"
      data-severity={problem.severity}
      data-code={problem.code}
      onClick={() => {
        if (problem.node !== null || problem.parameter !== null) app.goTo(problem.node, problem.parameter);
      }}
    >
      <ProblemText problem={problem} />
      {where && (
        <span className="problem-where" dir="auto">
          {where}
        </span>
      )}
    </button>
  );
}
