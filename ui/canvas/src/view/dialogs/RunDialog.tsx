/** A run with other values than the pipeline's own, or of a part of it; and what it will do. */

import { Play } from 'lucide-react';
import { useId, useMemo, useState } from 'react';

import { orderedNodes } from '../../document/ops';
import { own } from '../../document/own';
import type { JsonValue } from '../../protocol';
import { limitOf, objections, textsOf, type LimitTexts } from '../../rules/limit';
import { notesOf } from '../../rules/notes';
import { fieldOf } from '../../rules/parameters';
import { nameOf } from '../../rules/ports';
import { blocking, type Part } from '../../rules/scope';
import { EMPTY_SWEEP, isComplete, type Sweep } from '../../rules/sweep';
import { plural } from '../../rules/wording';
import { chosenProfile, startRun, startSweep } from '../../state/commands';
import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog, keep, panels, usePanels, type Browsing } from '../../state/panels';
import { browsingFor } from '../inspector/fields/browse';
import { ValueControl } from '../inspector/fields/controls';
import { FieldFrame } from '../inspector/fields/FieldFrame';
import { Dialog } from '../parts/Dialog';
import { BriefEstimate } from './Estimate';
import { FileBrowser } from './FileBrowser';
import { Forecast } from './Forecast';
import { LimitForm } from './LimitForm';
import { BriefOutlook, SweepForecastView, useSweepOutlook } from './SweepForecast';
import { SweepForm } from './SweepForm';

type Values = Readonly<Record<string, JsonValue>>;

export function RunDialog({ asked }: { asked: Part }) {
  const app = useApp();
  const doc = useCanvas((s) => s.doc);
  const types = useCanvas((s) => s.types);
  const problems = useCanvas((s) => s.problems);
  const [part, setPart] = useState<Part>({ start: asked.start, end: asked.end, fresh: asked.fresh });
  const [values, setValues] = useState<Values>({});
  const [limit, setLimit] = useState<LimitTexts | null>(null);
  const [sweep, setSweep] = useState<Sweep | null>(null);
  const [browsing, setBrowsing] = useState<Browsing | null>(null);
  const fields = useMemo(
    () => Object.keys(doc.parameters).map((name) => ({ ...fieldOf(doc, types, name), optional: false })),
    [doc, types],
  );
  const valueOf = (name: string): JsonValue => own(values, name) ?? own(doc.parameters, name)?.value ?? null;
  const ofFields = fields.filter((field) => notesOf(field, valueOf(field.name), []).length > 0);
  // A sweep runs from the beginning.
  const stops = blocking(problems, doc, sweep === null ? part : { ...part, start: null }).length;
  const profiles = useCanvas((s) => s.welcome?.profiles);
  usePanels((p) => p.profile);
  const profile = profiles?.find(({ name }) => name === chosenProfile(app));
  const limits = sweep?.limit ?? limit ?? textsOf(profile);
  const { after, cost } = objections(limits, profile);
  const incomplete = sweep === null ? ofFields.length > 0 : !isComplete(sweep);
  const wrong = incomplete || after !== '' || cost !== '';
  const outlook = useSweepOutlook(sweep, part.end);
  const start = () => {
    if (wrong || stops > 0) return;
    closeDialog();
    if (sweep === null) startRun(app, part, { ...values }, limitOf(limit));
    else startSweep(app, part.end, sweep);
  };
  return (
    <>
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
            {stops === 0 && sweep === null && <BriefEstimate part={part} />}
            {stops === 0 && sweep !== null && <BriefOutlook outlook={outlook} />}
            <button type="button" className="btn" onClick={closeDialog}>
              Cancel
            </button>
            <button type="submit" className="btn btn-primary" data-autofocus disabled={wrong || stops > 0}>
              <Play size={14} aria-hidden /> {sweep === null ? 'Run' : 'Run the sweep'}
            </button>
          </>
        }
      >
        <label className="check">
          <input
            type="checkbox"
            checked={sweep !== null}
            onChange={(event) => {
              setSweep(event.currentTarget.checked ? EMPTY_SWEEP : null);
            }}
          />
          Try several values: a sweep, with a run for each
        </label>
        {sweep !== null && <SweepForm sweep={sweep} onChange={setSweep} onBrowse={setBrowsing} />}
        {sweep === null && fields.length > 0 && (
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
                onBrowse={setBrowsing}
              />
            ))}
          </section>
        )}
        <PartForm part={part} onChange={setPart} whole={sweep !== null} />
        <LimitForm
          what={sweep === null ? 'run' : 'sweep'}
          texts={limits}
          profile={profile}
          onChange={(texts) => {
            if (sweep === null) setLimit(texts);
            else setSweep({ ...sweep, limit: texts });
          }}
        />
        {sweep !== null && <SweepForecastView outlook={outlook} />}
        {sweep === null && <Forecast part={part} otherValues={Object.keys(values).length > 0} />}
      </Dialog>
      {browsing && (
        <FileBrowser
          browsing={browsing}
          onClose={() => {
            setBrowsing(null);
          }}
        />
      )}
    </>
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
  onBrowse: (browsing: Browsing) => void;
}

function RunValue({ field, value, changed: other, onChange, onBrowse }: RunValueProps) {
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
        onBrowse={() => {
          onBrowse(browsingFor(field, value, onChange));
        }}
      />
    </FieldFrame>
  );
}

interface PartFormProps {
  part: Part;
  onChange: (part: Part) => void;
  /** From the beginning, and what is up to date is not run again. */
  whole: boolean;
}

function PartForm({ part, onChange, whole }: PartFormProps) {
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
      {!whole &&
        select('From', 'the beginning', part.start, (start) => {
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
      {!whole && (
        <label className="check">
          <input
            type="checkbox"
            checked={part.fresh}
            onChange={(event) => {
              onChange({ ...part, fresh: event.currentTarget.checked });
            }}
          />
          Ignore cached results: run everything again
        </label>
      )}
    </section>
  );
}
