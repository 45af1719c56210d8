/** What a run will do, before it is started. */

import { useMemo } from 'react';

import { nameOf } from '../../rules/ports';
import { forecast, type Part } from '../../rules/scope';
import { plural, sentence } from '../../rules/wording';
import { useCanvas } from '../../state/hooks';
import { StateMark } from '../inspector/StateMark';

export function Forecast({ part, otherValues }: { part: Part; otherValues: boolean }) {
  const doc = useCanvas((s) => s.doc);
  const outlook = useCanvas((s) => s.outlook);
  const steps = useMemo(() => forecast(doc, outlook, part), [doc, outlook, part]);
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
        {plural(work, 'nodes')} will run, {steps.length - work} up to date.
        {otherValues && <span className="quiet"> Other parameters may make more of them run.</span>}
      </p>
      <ul className="forecast">
        {steps.map(({ node, work: runs, reason }) => (
          <li key={node}>
            <StateMark state={runs ? 'stale' : 'fresh'} />
            <span className="forecast-name" dir="auto">
              {nameOf(doc, node)}
            </span>
            {runs && <span className="quiet">{sentence(reason)}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
