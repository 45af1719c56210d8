/** The form of a node, made only from its declaration: a new node needs no code here. */

import { own } from '../../document/own';
import type { JsonValue } from '../../protocol';
import { shown } from '../../rules/fields';
import { useCanvas } from '../../state/hooks';
import { ParameterField } from './ParameterField';
import { NodePolicy } from './NodePolicy';

const NO_PARAMETERS: Readonly<Record<string, JsonValue>> = {};

export function NodeForm({ id }: { id: string }) {
  const type = useCanvas((s) => own(s.types, own(s.doc.nodes, id)?.type ?? ''));
  if (!type) return <UnknownType id={id} />;
  const plain = type.fields.filter((field) => !field.advanced);
  const advanced = type.fields.filter((field) => field.advanced);
  return (
    <div className="form">
      {type.fields.length === 0 && <p className="quiet">This node has no parameters.</p>}
      {plain.map((field) => (
        <ParameterField key={field.name} node={id} field={field} />
      ))}
      <details
        className="fold"
        onToggle={(event) => {
          // Opened at the panel's end, nothing of it would be seen.
          if (event.currentTarget.open) event.currentTarget.scrollIntoView({ block: 'nearest' });
        }}
      >
        <summary>Advanced</summary>
        <div className="form">
          {advanced.map((field) => (
            <ParameterField key={field.name} node={id} field={field} />
          ))}
          <NodePolicy id={id} />
        </div>
      </details>
    </div>
  );
}

/** A node whose type is not installed keeps what it has: it can be looked at, and wired anew. */
function UnknownType({ id }: { id: string }) {
  const params = useCanvas((s) => own(s.doc.nodes, id)?.params ?? NO_PARAMETERS);
  const entries = Object.entries(params);
  return (
    <div className="form">
      <p className="quiet">This node’s type is not installed here. Its parameters and wires are kept as they are.</p>
      {entries.length > 0 && (
        <dl className="facts">
          {entries.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{shown(value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}
