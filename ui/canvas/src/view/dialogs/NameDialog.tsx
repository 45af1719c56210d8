/** A name for the pipeline: to save it under, or to call it from now on. */

import { useId, useState } from 'react';

import { refused, remark } from '../../rules/names';
import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog } from '../../state/panels';
import { Dialog } from '../parts/Dialog';

export function NameDialog({ kind }: { kind: 'save-as' | 'rename' }) {
  const app = useApp();
  const id = useId();
  const document = useCanvas((s) => s.document);
  const current = useCanvas((s) => s.doc.name);
  const pipelines = useCanvas((s) => s.library?.pipelines);
  const draft = useCanvas((s) => s.file?.disk === 'new');
  const [name, setName] = useState(current);
  // A saved pipeline stays beside what it is saved as.
  const stays = kind === 'save-as' && !draft;
  const others = (pipelines ?? []).filter((other) => stays || other.document !== document).map((other) => other.name);
  const refusal = refused(name, others);
  const submit = () => {
    if (document === null || refusal !== '') return;
    closeDialog();
    if (kind === 'rename' && name.trim() === current) return;
    app.say({ type: kind, document, name: name.trim() });
  };
  const verb = kind === 'save-as' ? 'Save' : 'Rename';
  return (
    <Dialog
      title={kind === 'save-as' ? 'Save as' : 'Rename pipeline'}
      onClose={closeDialog}
      onSubmit={submit}
      footer={
        <>
          <button type="button" className="btn" onClick={closeDialog}>
            Cancel
          </button>
          <button type="submit" className="btn btn-primary" disabled={refusal !== ''}>
            {verb}
          </button>
        </>
      }
    >
      <label className="dialog-label" htmlFor={id}>
        Name
      </label>
      <input
        id={id}
        className="input"
        data-autofocus
        dir="auto"
        value={name}
        aria-invalid={refusal !== ''}
        aria-describedby={`${id}-note`}
        onFocus={(event) => {
          event.currentTarget.select();
        }}
        onChange={(event) => {
          setName(event.currentTarget.value);
        }}
      />
      <p id={`${id}-note`} role="alert" className={refusal ? 'field-note note-error' : 'quiet'}>
        {refusal || remark(name, others)}
      </p>
    </Dialog>
  );
}
