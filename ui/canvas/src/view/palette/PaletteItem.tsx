/** A node type in the palette, and why a search found it: drag it, double-click it, or press Enter. */

import { useCallback, type MouseEvent } from 'react';

import type { NodeTypeInfo, PortInfo } from '../../protocol';
import type { Found } from '../../rules/search';
import { listed } from '../../rules/wiring';
import { kindStyle } from '../parts/colours';
import { theEditor } from '../canvas/editor';
import { useTip } from '../canvas/tips';
import { NodeIcon } from '../parts/NodeIcon';
import { WithCode } from '../parts/WithCode';
import { startCarrying } from './carry';

export function PaletteItem({ found: { type, why } }: { found: Found }) {
  const tip = useTip(
    useCallback(() => <TypeCard type={type} />, [type]),
    'right',
  );
  const add = () => theEditor()?.addAtCentre(type);
  return (
    <button
      type="button"
      className="palette-item"
      aria-label={type.type}
      {...tip}
      onPointerDown={(event) => {
        tip.onPointerDown();
        if (event.button !== 0) return;
        // A finger would keep every later event on this button.
        event.currentTarget.releasePointerCapture(event.pointerId);
        startCarrying(event, type);
      }}
      onClick={(event: MouseEvent) => {
        // Pressed by a key or by a screen reader; the mouse drags or clicks twice.
        if (event.detail === 0) add();
      }}
      onDoubleClick={add}
    >
      <NodeIcon type={type} size={15} />
      <span className="palette-words">
        <span className="palette-name">{type.type}</span>
        {why !== '' && <span className="palette-why">{why}</span>}
      </span>
    </button>
  );
}

/** All that the declaration says of a node type. */
function TypeCard({ type }: { type: NodeTypeInfo }) {
  const { description, summary, inputs, outputs, origin, version, backends } = type;
  return (
    <div className="type-card">
      <div className="tip-title">{type.type}</div>
      <div className="tip-muted">{type.category}</div>
      <p>
        <Words text={summary} />
      </p>
      {description !== '' && (
        <div className="type-description">
          {description.split(/\n\s*\n/).map((paragraph) => (
            <p key={paragraph}>
              <Words text={paragraph} />
            </p>
          ))}
        </div>
      )}
      <Ports title="Takes" ports={inputs} />
      <Ports title="Gives" ports={outputs} />
      <p className="tip-muted">
        {origin} · version {version} · {backends.join(', ')}
      </p>
    </div>
  );
}

/** A paragraph of a docstring: its line breaks are the source file's. */
function Words({ text }: { text: string }) {
  return <WithCode text={text.replace(/\s+/g, ' ')} />;
}

function Ports({ title, ports }: { title: string; ports: readonly PortInfo[] }) {
  if (ports.length === 0) return null;
  return (
    <div className="type-ports">
      <span className="tip-muted">{title}</span>
      <ul>
        {ports.map(({ name, kinds, required }) => (
          <li key={name}>
            <span className="type-dot" style={kindStyle(kinds[0] ?? '')} aria-hidden="true" />
            {name} <span className="tip-muted">{listed(kinds)}</span>
            {!required && <span className="tip-muted"> (optional)</span>}
          </li>
        ))}
      </ul>
    </div>
  );
}
