/** A wire: where from, where to, what travels on it. */

import { Eye, Scissors } from 'lucide-react';

import { removeItems } from '../../document/edits';
import { end } from '../../document/ends';
import { own } from '../../document/own';
import { kindFrom, nameOf } from '../../rules/ports';
import { look } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { useViews } from '../../state/views';
import { kindStyle } from '../parts/colours';
import { FoldButton } from './FoldButton';

export function EdgeInspector({ edge }: { edge: string }) {
  const app = useApp();
  const wire = useCanvas((s) => own(s.doc.edges, edge));
  const kind = useCanvas((s) => (wire ? kindFrom(s.doc, s.types, wire.source) : ''));
  const preview = useCanvas((s) => (wire ? own(s.previews, wire.source) : undefined));
  const from = end(wire?.source ?? '');
  const seen = useViews(from.node).some(({ port }) => port === from.port);
  if (!wire) return null;
  return (
    <>
      <header className="inspector-head">
        <h2>Wire</h2>
        <FoldButton open />
      </header>
      <div className="inspector-scroll">
        <dl className="facts padded">
          <End label="From" place={wire.source} />
          <End label="To" place={wire.target} />
          <div>
            <dt>Carries</dt>
            <dd>
              <span className="about-port" style={kindStyle(kind)}>
                {kind || 'unknown'}
              </span>
              {preview && <p className="quiet">{preview}</p>}
            </dd>
          </div>
        </dl>
        <div className="padded edge-actions">
          {seen && (
            <button
              type="button"
              className="btn"
              onClick={() => {
                look(app, from.node, from.port);
              }}
            >
              <Eye size={14} aria-hidden /> Look at data
            </button>
          )}
          <button
            type="button"
            className="btn"
            onClick={() => {
              app.edit('Cut wire', removeItems(app.state.doc, [], [edge]));
            }}
          >
            <Scissors size={14} aria-hidden /> Cut wire
          </button>
        </div>
      </div>
    </>
  );
}

function End({ label, place }: { label: string; place: string }) {
  const app = useApp();
  const { node, port } = end(place);
  const name = useCanvas((s) => nameOf(s.doc, node));
  return (
    <div>
      <dt>{label}</dt>
      <dd>
        <button
          type="button"
          className="link"
          dir="auto"
          onClick={() => {
            app.goTo(node);
          }}
        >
          {name}
        </button>
        <span className="quiet"> · {port}</span>
      </dd>
    </div>
  );
}
