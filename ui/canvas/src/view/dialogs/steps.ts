/** What a run of a part would do with each node, as far as it is known. */

import { useMemo } from 'react';

import { leftOut } from '../../rules/modes';
import { forecast, type Part, type Step } from '../../rules/scope';
import { useCanvas } from '../../state/hooks';

export function useSteps(part: Part): { steps: readonly Step[]; out: ReturnType<typeof leftOut> } {
  const doc = useCanvas((s) => s.doc);
  const forecasts = useCanvas((s) => s.forecasts);
  const problems = useCanvas((s) => s.problems);
  const out = useMemo(() => leftOut(doc, problems), [doc, problems]);
  const steps = useMemo(() => forecast(doc, forecasts, part, out), [doc, forecasts, part, out]);
  return { steps, out };
}
