/** What is wrong with the catalogue, at the foot of the palette: a node of one's own that can't be loaded, for instance. */

import { TriangleAlert } from 'lucide-react';

import type { Problem } from '../../protocol';
import { sorted } from '../../rules/problems';
import { useCanvas } from '../../state/hooks';

const NONE: readonly Problem[] = [];

export function CatalogProblems() {
  const problems = useCanvas((s) => s.welcome?.problems ?? NONE);
  if (problems.length === 0) return null;
  return (
    <details className="palette-problems">
      <summary>
        <TriangleAlert size={13} aria-hidden="true" />
        {problems.length === 1 ? '1 problem with the nodes' : `${problems.length} problems with the nodes`}
      </summary>
      <ul>
        {sorted(problems).map(({ code, severity, message, hint }) => (
          <li key={`${code} ${message}`} data-severity={severity}>
            {message} {hint !== '' && <span className="palette-hint">{hint}</span>}
          </li>
        ))}
      </ul>
    </details>
  );
}
