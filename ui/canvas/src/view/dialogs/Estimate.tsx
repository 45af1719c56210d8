/** How long a run takes and what it costs, before it is started: the range, how it is known, what is not in it. */

import { Clock } from 'lucide-react';

import { own } from '../../document/own';
import { costText, estimateOf, rangeOf, requestsText, timeText } from '../../rules/estimate';
import { between } from '../../rules/figures';
import { nameOf } from '../../rules/ports';
import type { Step } from '../../rules/scope';
import { chosenProfile } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { usePanels } from '../../state/panels';

export function Estimate({ steps }: { steps: readonly Step[] }) {
  const app = useApp();
  const doc = useCanvas((s) => s.doc);
  const forecasts = useCanvas((s) => s.forecasts);
  const profiles = useCanvas((s) => s.welcome?.profiles);
  usePanels((p) => p.profile);
  const profile = profiles?.find(({ name }) => name === chosenProfile(app));
  const works = steps.filter(({ work }) => work);
  if (works.length === 0) return null;
  const found = estimateOf(doc, forecasts, steps);
  const name = (node: string) => nameOf(doc, node);
  return (
    <section className="run-estimate" aria-label="Time and cost of this run">
      <h3>
        <Clock size={14} aria-hidden /> Time and cost of this run
      </h3>
      <dl data-testid="run-estimate">
        <dt>Time</dt>
        <dd>{timeText(found, name)}</dd>
        <dt>Cost</dt>
        <dd>{costText(found, profile, name)}</dd>
      </dl>
      <details>
        <summary>How this is known</summary>
        <ul>
          {works.map(({ node }) => {
            const known = own(forecasts, node);
            const range = rangeOf(known);
            return (
              <li key={node}>
                <b dir="auto">{name(node)}</b> {range === null ? 'unknown' : between(range.low, range.high)}
                {known?.basis && <span className="quiet">: {known.basis.replaceAll('`', '')}</span>}
                {known?.requests && <>; {requestsText(known.requests)}</>}
              </li>
            );
          })}
          {profile && profile.price !== null && <li>The machine costs its time by the price: {profile.priced}.</li>}
        </ul>
      </details>
    </section>
  );
}
