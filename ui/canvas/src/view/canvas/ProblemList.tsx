/** Problems as lines of a tooltip. */

import type { Problem } from '../../protocol';
import { sorted } from '../../rules/problems';

const SHOWN = 5;

export function ProblemList({ problems }: { problems: readonly Problem[] }) {
  const lines = sorted(problems);
  return (
    <ul className="tip-problems">
      {lines.slice(0, SHOWN).map(({ code, severity, message, hint, port, parameter }) => (
        <li key={`${code} ${port ?? ''} ${parameter ?? ''} ${message}`} data-severity={severity}>
          {message}
          {hint !== '' && <span className="tip-muted"> {hint}</span>}
        </li>
      ))}
      {lines.length > SHOWN && <li className="tip-muted">and {lines.length - SHOWN} more</li>}
    </ul>
  );
}
