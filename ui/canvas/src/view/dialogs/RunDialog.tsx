/** A run with other values than the pipeline's own, or of a part of it; and what it will do. */

import { Play } from 'lucide-react';
import { useId, useMemo, useState } from 'react';

import { orderedNodes } from '../../document/ops';
import { own } from '../../document/own';
import type { JsonValue } from '../../protocol';
import { notesOf } from '../../rules/notes';
import { fieldOf } from '../../rules/parameters';
import { nameOf } from '../../rules/ports';
import { blocking, type Part } from '../../rules/scope';
import { plural } from '../../rules/wording';
import { startRun } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog, keep, panels, usePanels } from '../../state/panels';
import { ValueControl } from '../inspector/fields/controls';
import { FieldFrame } from '../inspector/fields/FieldFrame';
import { Dialog } from './Dialog';
import { Forecast } from './Forecast';

type Values = Readonly<Record<string, JsonValue>>;

export function RunDialog({ asked }: { asked: Part }) {
  const app = useApp();
  const doc = useCanvas((s) => s.doc);
  const types = useCanvas((s) => s.types);
  const problems = useCanvas((s) => s.problems);
  const [part, setPart] = useState<Part>({ start: asked.start, end: asked.end, fresh: asked.fresh });
  const [values, setValues] = useState<Values>({});
  const fields = useMemo(
    () => Object.keys(doc.parameters).map((name) => ({ ...fieldOf(doc, types, name), optional: false })),
    [doc, types],
  );
  const valueOf = (name: string): JsonValue => own(values, name) ?? own(doc.parameters, name)?.value ?? null;
  const wrong = fields.filter((field) => notesOf(field, valueOf(field.name), []).length > 0);
  const stops = blocking(problems, doc, part).length;
  const start = () => {
    if (wrong.length > 0 || stops > 0) return;
    closeDialog();
    startRun(app, part, { ...values });
  };
  return (
    <Dialog
      title={`Run ${doc.name}`}
      size="medium"
      onClose={closeDialog}
      onSubmit={start}
      footer={
        <>
          {stops > 0 && (
            <button
              type="button"
              className="link note-error dialog-note"
              onClick={() => {
                closeDialog();
                panels.setState({ dock: 'problems' });
              }}
            >
              {plural(stops, 'errors')} must be solved first
            </button>
          )}
          <button type="button" className="btn" onClick={closeDialog}>
            Cancel
          </button>
          <button type="submit" className="btn btn-primary" data-autofocus disabled={wrong.length > 0 || stops > 0}>
            <Play size={14} aria-hidden /> Run
          </button>
        </>
      }
    >
      {fields.length > 0 && (
        <section className="run-values" aria-label="Parameters of this run">
          <h3>Parameters, for this run only</h3>
          {fields.map((field) => (
            <RunValue
              key={field.name}
              field={field}
              value={valueOf(field.name)}
              changed={Object.hasOwn(values, field.name)}
              onChange={(value) => {
                setValues(changed(values, field.name, value, own(doc.parameters, field.name)?.value ?? null));
              }}
            />
          ))}
        </section>
      )}
      <PartForm part={part} onChange={setPart} />
      <Forecast part={part} otherValues={Object.keys(values).length > 0} />
    </Dialog>
  );
}

/** Only what differs from the pipeline's own value is said. */
function changed(values: Values, name: string, value: JsonValue | undefined, usual: JsonValue): Values {
  const { [name]: _, ...others } = values;
  const same = value === undefined || JSON.stringify(value) === JSON.stringify(usual);
  return same ? others : { ...others, [name]: value };
}

interface RunValueProps {
  field: ReturnType<typeof fieldOf>;
  value: JsonValue;
  changed: boolean;
  onChange: (value: JsonValue | undefined) => void;
}

function RunValue({ field, value, changed: other, onChange }: RunValueProps) {
  const id = useId();
  const notes = notesOf(field, value, []);
  return (
    <FieldFrame field={field} id={id} descriptionId={`${id}-notes`} changed={other} notes={notes}>
      <ValueControl
        field={field}
        value={value ?? undefined}
        id={id}
        describedBy={`${id}-notes`}
        invalid={notes.length > 0}
        onChange={onChange}
        onDone={() => undefined}
      />
    </FieldFrame>
  );
}

function PartForm({ part, onChange }: { part: Part; onChange: (part: Part) => void }) {
  const app = useApp();
  const id = useId();
  const doc = useCanvas((s) => s.doc);
  const profiles = useCanvas((s) => s.welcome?.profiles);
  const profile = usePanels((p) => p.profile);
  const nodes = orderedNodes(doc).map(([node]) => node);
  const select = (label: string, none: string, value: string | null, choose: (node: string | null) => void) => (
    <div className="field">
      <label htmlFor={`${id}-${label}`}>{label}</label>
      <select
        id={`${id}-${label}`}
        className="input select"
        value={value ?? ''}
        onChange={(event) => {
          choose(event.currentTarget.value || null);
        }}
      >
        <option value="">{none}</option>
        {nodes.map((node) => (
          <option key={node} value={node}>
            {nameOf(doc, node)}
          </option>
        ))}
      </select>
    </div>
  );
  return (
    <section className="run-part" aria-label="Which part">
      {select('From', 'the beginning', part.start, (start) => {
        onChange({ ...part, start });
      })}
      {select('Up to', 'the end', part.end, (end) => {
        onChange({ ...part, end });
      })}
      <div className="field">
        <label htmlFor={`${id}-profile`}>Compute profile</label>
        <select
          id={`${id}-profile`}
          className="input select"
          value={profile ?? app.state.welcome?.profiles[0]?.name ?? ''}
          onChange={(event) => {
            keep({ profile: event.currentTarget.value });
          }}
        >
          {profiles?.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={part.fresh}
          onChange={(event) => {
            onChange({ ...part, fresh: event.currentTarget.checked });
          }}
        />
        Run everything fresh: use no result from before
      </label>
    </section>
  );
}
