/** What is wrong with the node and belongs to no field that is shown: ports, the type, unknown parameters. */

import { own } from '../../document/own';
import { setParameter } from '../../document/edits';
import { LEFT_OUT } from '../../rules/modes';
import { pinnedTo, sorted } from '../../rules/problems';
import { useApp, useCanvas } from '../../state/hooks';
import { AllowFolder } from '../parts/AllowFolder';
import { ProblemText } from '../parts/ProblemText';

export function NodeProblems({ id, fieldsShown }: { id: string; fieldsShown: boolean }) {
  const app = useApp();
  const node = useCanvas((s) => own(s.doc.nodes, id));
  const type = useCanvas((s) => own(s.types, own(s.doc.nodes, id)?.type ?? ''));
  const problems = useCanvas((s) => pinnedTo(s.problems, id));
  const fields = new Set(fieldsShown ? type?.fields.map(({ name }) => name) : []);
  const shown = sorted(problems.filter(({ code }) => code !== LEFT_OUT)).filter(
    ({ parameter }) => parameter === null || !fields.has(parameter),
  );
  if (shown.length === 0) return null;
  return (
    <ul className="node-problems" aria-label="Problems of the node">
      {shown.map((problem) => {
        const { code, parameter, port, message } = problem;
        const stray = parameter !== null && type && node && parameter in node.params && !isDeclared(type, parameter);
        return (
          <li
            key={`${code} ${parameter ?? ''} ${port ?? ''} ${message}`}
            className="problem"
            data-severity={problem.severity}
          >
            <ProblemText problem={problem} />
            <AllowFolder problem={problem} />
            {stray && (
              <button
                type="button"
                className="btn btn-small"
                onClick={() => {
                  app.edit(`Remove ${parameter}`, setParameter(app.state.doc, id, parameter, undefined));
                }}
              >
                Remove {parameter}
              </button>
            )}
            {parameter !== null && type && isDeclared(type, parameter) && (
              <button
                type="button"
                className="btn btn-small"
                onClick={() => {
                  app.goTo(id, parameter);
                }}
              >
                Go to field
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function isDeclared(type: { fields: readonly { name: string }[] }, parameter: string): boolean {
  return type.fields.some(({ name }) => name === parameter);
}
