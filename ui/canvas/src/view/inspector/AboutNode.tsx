/** A node type's documentation. */

import type { NodeTypeInfo, PortInfo } from '../../protocol';
import { kindStyle } from '../parts/colours';
import { WithCode } from '../parts/WithCode';

export function AboutNode({ type, name }: { type: NodeTypeInfo | undefined; name: string }) {
  if (!type) return <p className="quiet padded">{name} is not installed here, so nothing is known about it.</p>;
  return (
    <div className="about">
      <p className="about-summary">
        <WithCode text={type.summary} />
      </p>
      {paragraphs(type.description).map((text) => (
        <p key={text}>
          <WithCode text={text} />
        </p>
      ))}
      <Ports title="Inputs" ports={type.inputs} inputs />
      <Ports title="Outputs" ports={type.outputs} />
      <dl className="facts">
        <div>
          <dt>Runs on</dt>
          <dd>{type.backends.join(', ')}</dd>
        </div>
        <div>
          <dt>From</dt>
          <dd>{type.origin}</dd>
        </div>
        <div>
          <dt>Version</dt>
          <dd>{type.version}</dd>
        </div>
      </dl>
    </div>
  );
}

function Ports({ title, ports, inputs = false }: { title: string; ports: readonly PortInfo[]; inputs?: boolean }) {
  if (ports.length === 0) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul className="about-ports">
        {ports.map((port) => (
          <li key={port.name}>
            <span className="about-port" style={kindStyle(port.kinds[0] ?? '')}>
              {port.name}
            </span>{' '}
            <span className="quiet">
              {port.kinds.join(' or ')}
              {inputs && !port.required && ', optional'}
            </span>
            {port.help && (
              <p className="quiet">
                <WithCode text={port.help} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Lines of a docstring as paragraphs: a blank line ends one. */
function paragraphs(text: string): string[] {
  return text
    .split(/\n\s*\n/)
    .map((part) => part.replace(/\s*\n\s*/g, ' ').trim())
    .filter((part) => part !== '');
}
