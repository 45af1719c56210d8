/** Questions asked before something is lost. */

import type { ReactNode } from 'react';

import { isActive } from '../../rules/lights';
import { keepMine } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog, openDialog } from '../../state/panels';
import { Dialog } from '../parts/Dialog';

interface ConfirmProps {
  title: string;
  /** What the main button does, in a word. */
  verb: string;
  danger?: boolean;
  /** A further button, beside the main one. */
  also?: ReactNode;
  onConfirm: () => void;
  children: ReactNode;
}

function Confirm({ title, verb, danger = false, also, onConfirm, children }: ConfirmProps) {
  return (
    <Dialog
      title={title}
      onClose={closeDialog}
      footer={
        <>
          <button type="button" className="btn" data-autofocus onClick={closeDialog}>
            Cancel
          </button>
          {also}
          <button
            type="button"
            className={danger ? 'btn btn-primary btn-danger' : 'btn btn-primary'}
            onClick={() => {
              closeDialog();
              onConfirm();
            }}
          >
            {verb}
          </button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}

export function ConfirmDelete() {
  const app = useApp();
  const document = useCanvas((s) => s.document);
  const name = useCanvas((s) => s.doc.name);
  const others = useCanvas((s) => s.others);
  const live = useCanvas((s) => (isActive(s.run) ? (s.run?.run_id ?? null) : null));
  return (
    <Confirm
      title="Delete pipeline"
      verb={live === null ? 'Delete' : 'Delete, and let the run end'}
      danger
      also={
        live !== null && (
          <button
            type="button"
            className="btn btn-danger"
            onClick={() => {
              closeDialog();
              app.say({ type: 'cancel', run_id: live });
              if (document !== null) app.say({ type: 'delete', document });
            }}
          >
            Cancel the run and delete
          </button>
        )
      }
      onConfirm={() => {
        if (document !== null) app.say({ type: 'delete', document });
      }}
    >
      <p>
        Delete <bdi className="strong">{name}</bdi> and its file?
      </p>
      {live !== null && (
        <p className="note-warning">
          A run of it is live. It goes on without the pipeline unless you cancel it, and is shown under Runs.
        </p>
      )}
      <p className="quiet">Its runs and what they made stay.</p>
      {others > 0 && <p className="note-warning">Others have it open at this moment.</p>}
    </Confirm>
  );
}

/** A folder outside of those that pipelines of this workspace may use. */
export function ConfirmAllow({ path }: { path: string }) {
  const app = useApp();
  return (
    <Confirm
      title="Allow this folder"
      verb="Allow"
      onConfirm={() => {
        app.say({ type: 'allow-folder', path });
      }}
    >
      <p>
        Let the pipelines of this workspace read and write in <bdi className="strong">{path}</bdi> and below?
      </p>
      <p className="quiet">
        It is kept in workspace.json, under <code>data_roots</code>, for the command line too. Of a file, its folder is
        allowed.
      </p>
    </Confirm>
  );
}

export function ConfirmRevert() {
  const app = useApp();
  const document = useCanvas((s) => s.document);
  const file = useCanvas((s) => s.file);
  return (
    <Confirm
      title="Revert to saved"
      verb="Revert"
      danger
      onConfirm={() => {
        if (document !== null) app.say({ type: 'revert', document });
      }}
    >
      <p>
        Take what <bdi className="strong">{file?.path}</bdi> holds, and drop all unsaved changes?
      </p>
    </Confirm>
  );
}

/** Save was pressed, but the file is not what it was when it was read. */
export function ConfirmOverwrite() {
  const app = useApp();
  const file = useCanvas((s) => s.file);
  const deleted = file?.disk === 'deleted';
  return (
    <Dialog
      title={deleted ? 'The file was deleted' : 'The file was changed'}
      onClose={closeDialog}
      footer={
        <>
          <button type="button" className="btn" data-autofocus onClick={closeDialog}>
            Cancel
          </button>
          <button
            type="button"
            className="btn"
            onClick={() => {
              openDialog({ kind: 'save-as' });
            }}
          >
            Save as…
          </button>
          {!deleted && (
            <button
              type="button"
              className="btn"
              onClick={() => {
                openDialog({ kind: 'revert' });
              }}
            >
              Take theirs
            </button>
          )}
          <button
            type="button"
            className="btn btn-primary"
            onClick={() => {
              closeDialog();
              keepMine(app);
            }}
          >
            {deleted ? 'Save again' : 'Keep mine'}
          </button>
        </>
      }
    >
      <p>
        Someone else {deleted ? 'deleted' : 'changed'} <bdi className="strong">{file?.path}</bdi> since it was read
        here.
      </p>
      <p className="quiet">
        {deleted
          ? 'Save it again at the same place, or under another name.'
          : 'Keep yours and lose theirs, take theirs and lose yours, or save yours under another name.'}
      </p>
    </Dialog>
  );
}
