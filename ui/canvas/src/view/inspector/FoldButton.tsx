/** Opens and folds the inspector; also in the head of what is inspected. */

import { PanelRightClose, PanelRightOpen } from 'lucide-react';

import { showPanel } from '../../state/panels';

export function FoldButton({ open }: { open: boolean }) {
  return (
    <button
      type="button"
      className="btn btn-icon"
      aria-label={open ? 'Hide the inspector' : 'Show the inspector'}
      title={open ? 'Hide the inspector' : 'Show the inspector'}
      aria-expanded={open}
      onClick={() => {
        showPanel('inspector', !open);
      }}
    >
      {open ? <PanelRightClose size={16} aria-hidden /> : <PanelRightOpen size={16} aria-hidden />}
    </button>
  );
}
