/** A card's ports, inputs on the left and outputs on the right. */

import { Position, useUpdateNodeInternals } from '@xyflow/react';
import { useEffect, useRef } from 'react';

import type { ShownPort, ShownPorts } from '../../rules/ports';
import { Port } from './Port';

export function PortRows({ id, ports }: { id: string; ports: ShownPorts }) {
  const { inputs, outputs } = ports;
  const rows = Math.max(1, inputs.length, outputs.length);
  useMeasured(id, ports);
  return (
    <div className="port-rows">
      {Array.from({ length: rows }, (_, row) => (
        <div className="port-row" key={row}>
          <Side node={id} port={inputs[row]} position={Position.Left} />
          <Side node={id} port={outputs[row]} position={Position.Right} />
        </div>
      ))}
    </div>
  );
}

function Side({ node, port, position }: { node: string; port: ShownPort | undefined; position: Position }) {
  if (!port) return null;
  return <Port key={port.name} node={node} port={port} side={position === Position.Left ? 'input' : 'output'} />;
}

/** React Flow measures ports only when a card changes its size: other ports of the same number must be reported to it. */
function useMeasured(id: string, { inputs, outputs }: ShownPorts): void {
  const update = useUpdateNodeInternals();
  const names = [...inputs, ...outputs].map(({ name }) => name).join(' ');
  const measured = useRef(names);
  useEffect(() => {
    // A new card is measured anyway; to ask for it 500 times would hold the browser for seconds.
    if (measured.current === names) return;
    measured.current = names;
    update(id);
  }, [update, id, names]);
}
