/** The bar above everything: the pipeline at the left, its run at the right, and what a person must know below. */

import { Braces, Redo2, Save, Undo2, Users } from 'lucide-react';

import { plural } from '../../rules/wording';
import { save } from '../../state/commands';
import { useApp, useCanvas, useUnsaved } from '../../state/hooks';
import { openDialog } from '../../state/panels';
import { printed } from '../canvas/shortcuts';
import { Banners } from './Banners';
import { PipelineMenu } from './PipelineMenu';
import { RunBar } from './RunBar';

export function Toolbar() {
  const ready = useCanvas((s) => s.welcome !== null && s.document !== null);
  if (!ready) return <Skeleton />;
  return (
    <>
      <div className="toolbar" role="toolbar" aria-label="Pipeline">
        <div className="toolbar-side">
          <PipelineMenu />
          <SaveButton />
          <span className="toolbar-line" />
          <UndoButton />
          <RedoButton />
          <span className="toolbar-line" />
          <ParametersButton />
          <OthersHere />
        </div>
        <RunBar />
      </div>
      <Banners />
    </>
  );
}

function SaveButton() {
  const app = useApp();
  const unsaved = useUnsaved();
  return (
    <button
      type="button"
      className="btn"
      title={unsaved ? `Save (${printed('Ctrl+S')})` : 'Everything is saved'}
      disabled={!unsaved}
      onClick={() => {
        save(app);
      }}
    >
      <Save size={15} aria-hidden />
      <span className="roomy-word">Save</span>
    </button>
  );
}

function UndoButton() {
  const app = useApp();
  const label = useCanvas((s) => s.history.done.at(-1)?.label);
  return (
    <button
      type="button"
      className="btn btn-icon"
      aria-label="Undo"
      title={label === undefined ? 'Nothing to undo' : `Undo: ${label} (${printed('Ctrl+Z')})`}
      disabled={label === undefined}
      onClick={() => app.undo()}
    >
      <Undo2 size={16} aria-hidden />
    </button>
  );
}

function RedoButton() {
  const app = useApp();
  const label = useCanvas((s) => s.history.undone.at(-1)?.label);
  return (
    <button
      type="button"
      className="btn btn-icon"
      aria-label="Redo"
      title={label === undefined ? 'Nothing to redo' : `Redo: ${label} (${printed('Ctrl+Shift+Z')})`}
      disabled={label === undefined}
      onClick={() => app.redo()}
    >
      <Redo2 size={16} aria-hidden />
    </button>
  );
}

function ParametersButton() {
  const count = useCanvas((s) => Object.keys(s.doc.parameters).length);
  return (
    <button
      type="button"
      className="btn"
      aria-label={`Pipeline parameters${count > 0 ? `: ${count}` : ''}`}
      title="Parameters of the pipeline"
      onClick={() => {
        openDialog({ kind: 'parameters' });
      }}
    >
      <Braces size={15} aria-hidden />
      <span className="wide-only">Parameters</span> {count > 0 && <span className="badge">{count}</span>}
    </button>
  );
}

function OthersHere() {
  const others = useCanvas((s) => s.others);
  if (others === 0) return null;
  return (
    <span
      className="others"
      role="status"
      title={`${plural(others, 'tabs')} more with this pipeline: edits are shared`}
    >
      <Users size={14} aria-hidden />
      <span>
        {others}
        <span className="wide-only"> {others === 1 ? 'other' : 'others'} here</span>
      </span>
    </span>
  );
}

function Skeleton() {
  return (
    <div className="toolbar" aria-busy="true" aria-label="Loading">
      <div className="toolbar-side">
        <span className="skeleton skeleton-wide" />
        <span className="skeleton" />
        <span className="skeleton" />
      </div>
      <div className="toolbar-side">
        <span className="skeleton" />
        <span className="skeleton skeleton-wide" />
      </div>
    </div>
  );
}
