/** One node: its name, its parameters, what it last made, what it is. */

import { useEffect } from 'react';

import { own } from '../../document/own';
import { setTitle } from '../../document/edits';
import { pinnedTo } from '../../rules/problems';
import { useApp, useCanvas } from '../../state/hooks';
import { panels, usePanels, type Panels } from '../../state/panels';
import { AboutNode } from './AboutNode';
import { useTyped } from '../parts/typed';
import { FoldButton } from './FoldButton';
import { NodeForm } from './NodeForm';
import { NodeId } from './NodeId';
import { NodeMode } from './NodeMode';
import { NodeProblems } from './NodeProblems';
import { NodeResult } from './NodeResult';
import { NodeIcon } from '../parts/NodeIcon';
import { moveFocus } from '../parts/rove';

export function NodeInspector({ id }: { id: string }) {
  const app = useApp();
  const type = useCanvas((s) => own(s.types, own(s.doc.nodes, id)?.type ?? ''));
  const node = useCanvas((s) => own(s.doc.nodes, id));
  const tab = usePanels((p) => p.inspectorTab);
  // Typing may end by choosing another node, which removes the field without a blur event.
  useEffect(
    () => () => {
      app.seal();
    },
    [app, id],
  );
  if (!node) return null;
  const unknown = type === undefined;
  return (
    <>
      <header className="inspector-head">
        <NodeIcon type={type} size={16} />
        <NodeTitle id={id} title={node.title} placeholder={node.type} />
        <FoldButton open />
        <p className="inspector-facts">
          <span className="fact-type" title={type?.summary}>
            {node.type}
          </span>
          <span>v{node.version ?? type?.version ?? '?'}</span>
          <span>{unknown ? 'not installed' : type.origin}</span>
        </p>
        <NodeId id={id} />
      </header>
      <Tabs current={tab} id={id} />
      <div className="inspector-scroll" role="tabpanel" aria-label={TABS.get(tab)}>
        <NodeMode id={id} />
        <NodeProblems id={id} fieldsShown={tab === 'parameters'} />
        {tab === 'parameters' && <NodeForm id={id} />}
        {tab === 'result' && <NodeResult id={id} />}
        {tab === 'about' && <AboutNode type={type} name={node.type} />}
      </div>
    </>
  );
}

function NodeTitle({ id, title, placeholder }: { id: string; title: string; placeholder: string }) {
  const app = useApp();
  const typed = useTyped(title, (text) => {
    app.edit('Rename', setTitle(app.state.doc, id, text), `${id} title`);
  });
  return (
    <input
      className="input input-title"
      aria-label="Title"
      dir="auto"
      value={typed.text}
      placeholder={placeholder}
      onChange={(event) => {
        typed.type(event.currentTarget.value);
      }}
      onBlur={() => {
        typed.end();
        app.seal();
      }}
    />
  );
}

const TABS: ReadonlyMap<Panels['inspectorTab'], string> = new Map([
  ['parameters', 'Parameters'],
  ['result', 'Result'],
  ['about', 'About'],
]);

function Tabs({ current, id }: { current: Panels['inspectorTab']; id: string }) {
  const errors = useCanvas((s) => pinnedTo(s.problems, id).filter((p) => p.severity === 'error').length);
  return (
    <div className="tabs" role="tablist" aria-label="About the node">
      {[...TABS].map(([tab, word]) => (
        <button
          key={tab}
          type="button"
          role="tab"
          className="tab"
          aria-selected={tab === current}
          tabIndex={tab === current ? 0 : -1}
          onClick={() => {
            panels.setState({ inspectorTab: tab });
          }}
          onKeyDown={(event) => {
            const key = { ArrowRight: 'ArrowDown', ArrowLeft: 'ArrowUp' }[event.key] ?? event.key;
            if (moveFocus(event.currentTarget.parentElement, '[role=tab]', key)) event.preventDefault();
          }}
        >
          {word}
          {tab === 'parameters' && errors > 0 && <span className="badge badge-error">{errors}</span>}
        </button>
      ))}
    </div>
  );
}
