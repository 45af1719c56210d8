/** Whether a node takes part in runs, said in its inspector as soon as it does not; and the way back. */

import { CircleOff } from 'lucide-react';

import { setMode } from '../../document/edits';
import { own } from '../../document/own';
import { outOf } from '../../rules/modes';
import { nameOf } from '../../rules/ports';
import { sentence } from '../../rules/wording';
import { useApp, useCanvas } from '../../state/hooks';

export function NodeMode({ id }: { id: string }) {
  const app = useApp();
  const mode = useCanvas((s) => own(s.doc.nodes, id)?.mode ?? 'run');
  const word = useCanvas((s) => outOf(s.doc, s.problems, id)?.word);
  const detail = useCanvas((s) => outOf(s.doc, s.problems, id)?.detail ?? '');
  if (word === undefined) return null;
  return (
    <div className="node-mode" role="note">
      <CircleOff size={14} aria-hidden />
      <span>
        <b>{word}:</b> {sentence(detail)}
      </span>
      {mode !== 'run' && (
        <button
          type="button"
          className="btn btn-small"
          onClick={() => {
            const { doc } = app.state;
            app.edit(`Enable ${nameOf(doc, id)}`, setMode(doc, [id], 'run'));
          }}
        >
          Enable
        </button>
      )}
    </div>
  );
}
