/** What a run will do, before it is started. */

import { Gauge } from 'lucide-react';
import { own } from '../../document/own';
import { nameOf } from '../../rules/ports';
import type { Part } from '../../rules/scope';
import { plural, sentence } from '../../rules/wording';
import { useCanvas } from '../../state/hooks';
import { NodeState } from '../parts/StateMark';
import { WithCode } from '../parts/WithCode';
import { Estimate } from './Estimate';
import { useSteps } from './steps';

export function Forecast({ part, otherValues }: { part: Part; otherValues: boolean }) {
  const doc = useCanvas((s) => s.doc);
  const forecasts = useCanvas((s) => s.forecasts);
  const { steps, out } = useSteps(part);
  const work = steps.filter((step) => step.work).length;
  if (steps.length === 0) {
    return (
      <p className="note-warning" role="status">
        {part.start === null || part.end === null
          ? 'There is nothing to run.'
          : `${nameOf(doc, part.start)} does not lead to ${nameOf(doc, part.end)}: choose nodes on one path.`}
      </p>
    );
  }
  return (
    <section aria-label="What will run">
      <h3>What will run</h3>
      <p role="status">
        {plural(work, 'nodes')} will run, {steps.length - work} up to date
        {out.size > 0 ? `, ${out.size} left out` : ''}.
        {otherValues && <span className="quiet"> Other parameters may make more of them run.</span>}
      </p>
      <ul className="forecast">
        {steps.map(({ node, work: runs, reason }) => (
          <li key={node}>
            <NodeState state={runs ? 'stale' : 'fresh'} />
            <span className="forecast-name" dir="auto">
              {nameOf(doc, node)}
            </span>
            {runs && <span className="quiet">{sentence(reason)}</span>}
          </li>
        ))}
      </ul>
      <Estimate steps={steps} />
      {steps.map(({ node, work: runs }) => {
        const advice = own(forecasts, node)?.advice;
        return (
          runs &&
          advice && (
            <p key={node} className="forecast-advice" data-testid="run-advice">
              <Gauge size={14} aria-hidden />
              <span>
                <b dir="auto">{nameOf(doc, node)}</b> <WithCode text={advice} />
              </span>
            </p>
          )
        );
      })}
    </section>
  );
}
