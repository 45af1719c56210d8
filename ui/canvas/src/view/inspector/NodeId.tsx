/** The node's id: what wires, logs and the command line call it. Changed only when the new one is good. */

import { useId, useState } from 'react';

import { changeId } from '../../document/edits';
import { isId } from '../../document/ids';
import { useApp, useCanvas } from '../../state/hooks';

export function NodeId({ id }: { id: string }) {
  const app = useApp();
  const [typed, setTyped] = useState<string | null>(null);
  const input = useId();
  const refusal = useCanvas((s) => (typed === null ? '' : whyNot(typed, id, Object.keys(s.doc.nodes))));
  const take = () => {
    const to = typed;
    setTyped(null);
    if (to === null || to === id || refusal !== '') return;
    app.edit(`Change id to ${to}`, changeId(app.state.doc, id, to));
    app.select({ nodes: [to], edges: [] });
  };
  return (
    <div className="node-id">
      <label htmlFor={input}>Id</label>
      <input
        id={input}
        className="input input-mono input-quiet"
        spellCheck={false}
        autoComplete="off"
        value={typed ?? id}
        aria-invalid={refusal !== ''}
        aria-describedby={`${input}-note`}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') take();
          if (event.key === 'Escape') setTyped(null);
          if (event.key === 'Escape') event.stopPropagation();
        }}
        onBlur={take}
      />
      <span id={`${input}-note`} role="alert" className="field-note note-error">
        {refusal}
      </span>
    </div>
  );
}

function whyNot(text: string, id: string, all: readonly string[]): string {
  if (text === id) return '';
  if (!isId(text)) return 'Letters, digits, _ and -, beginning with a letter; at most 64.';
  const taken = all.some((other) => other !== id && other.toLowerCase() === text.toLowerCase());
  return taken ? 'Another node is called so.' : '';
}
