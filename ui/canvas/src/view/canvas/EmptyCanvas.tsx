/** What an empty canvas says: how to begin. */

import { openDialog } from '../../state/panels';
import { theEditor } from './editor';

export function EmptyCanvas() {
  return (
    <div className="empty-canvas">
      <p className="empty-title">This pipeline is empty</p>
      <p>
        Drag a node here, or press <kbd>/</kbd> to add one.
      </p>
      <p className="empty-actions">
        <button type="button" onClick={() => theEditor()?.openAddMenu(theEditor()?.centre())}>
          Add a node
        </button>
        <button
          type="button"
          onClick={() => {
            openDialog({ kind: 'open' });
          }}
        >
          Start from a template
        </button>
      </p>
    </div>
  );
}
