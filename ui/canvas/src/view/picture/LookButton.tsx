/** A button on a page of others that opens a dataset, as the editor does. */

import { Eye } from 'lucide-react';

import type { Look } from '../../protocol';
import { openDialog, usePanels } from '../../state/panels';
import { LookDialog } from '../look/LookDialog';

export function LookButton({ look }: { look: Look }) {
  const dialog = usePanels((p) => p.dialog);
  const isOpen = dialog?.kind === 'look' && dialog.views[0]?.key === look.view;
  return (
    <div className="studio look-button">
      <button
        type="button"
        className="btn"
        onClick={() => {
          const views = [{ port: '', key: look.view }];
          openDialog({ kind: 'look', title: look.title, views, port: '', row: null });
        }}
      >
        <Eye size={14} aria-hidden /> Look at the data
      </button>
      {isOpen && <LookDialog key={look.view} looking={dialog} />}
    </div>
  );
}
