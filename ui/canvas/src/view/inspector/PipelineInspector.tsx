/** Nothing selected: the pipeline itself. */

import { useId } from 'react';

import { setDescription } from '../../document/edits';
import { worst } from '../../rules/problems';
import { plural } from '../../rules/wording';
import { useApp, useCanvas } from '../../state/hooks';
import { panels } from '../../state/panels';
import { useTyped } from '../parts/typed';
import { TypedArea } from './fields/TypedArea';
import { FoldButton } from './FoldButton';
import { PipelineParameters } from './PipelineParameters';

export function PipelineInspector() {
  const name = useCanvas((s) => s.doc.name);
  return (
    <>
      <header className="inspector-head">
        <h2 dir="auto" title={name}>
          {name}
        </h2>
        <FoldButton open />
        <Counts />
      </header>
      <div className="inspector-scroll">
        <div className="form">
          <Description />
        </div>
        <section className="inspector-section" aria-label="Parameters">
          <h3>Parameters</h3>
          <PipelineParameters />
        </section>
      </div>
    </>
  );
}

function Counts() {
  const nodes = useCanvas((s) => Object.keys(s.doc.nodes).length);
  const wires = useCanvas((s) => Object.keys(s.doc.edges).length);
  const problems = useCanvas((s) => s.problems);
  const severity = worst(problems);
  return (
    <p className="inspector-facts">
      <span>{plural(nodes, 'nodes')}</span>
      <span>{plural(wires, 'wires')}</span>
      {severity !== null && (
        <button
          type="button"
          className={`link note-${severity}`}
          onClick={() => {
            panels.setState({ dock: 'problems' });
          }}
        >
          {plural(problems.length, 'problems')}
        </button>
      )}
    </p>
  );
}

function Description() {
  const app = useApp();
  const id = useId();
  const text = useCanvas((s) => s.doc.description);
  const typed = useTyped(text, (next) => {
    app.edit('Set description', setDescription(app.state.doc, next), 'description');
  });
  return (
    <div className="field">
      <div className="field-head">
        <label htmlFor={id}>Description</label>
      </div>
      <TypedArea typed={typed} id={id} className="input textarea" rows={3} placeholder="What is this pipeline for?" />
    </div>
  );
}
