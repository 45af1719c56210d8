/** The values that a sweep tries: a row for each parameter of the pipeline, or of a node. */

import { FolderOpen, Plus, X } from 'lucide-react';
import { useId, useState, type ComponentProps } from 'react';

import { orderedNodes } from '../../document/ops';
import { own } from '../../document/own';
import { fieldAt } from '../../rules/parameters';
import { nameOf } from '../../rules/ports';
import {
  countOf,
  lastPath,
  MOST_JOBS,
  MOST_TRIALS,
  USUAL_SEARCH,
  withPath,
  type Sweep,
  type SweepRow as Row,
} from '../../rules/sweep';
import { useCanvas } from '../../state/hooks';
import type { Browsing } from '../../state/panels';
import { browsingFor } from '../inspector/fields/browse';

interface SweepFormProps {
  sweep: Sweep;
  onChange: (sweep: Sweep) => void;
  onBrowse: (browsing: Browsing) => void;
}

export function SweepForm({ sweep, onChange, onBrowse }: SweepFormProps) {
  const id = useId();
  const change = (at: number, row: Partial<Row>) => {
    onChange({ ...sweep, rows: sweep.rows.map((old, n) => (n === at ? { ...old, ...row } : old)) });
  };
  return (
    <section className="sweep-values" aria-label="Values to try">
      <h3>Values to try</h3>
      {sweep.rows.map((row, at) => (
        <SweepRow
          key={at}
          row={row}
          number={at + 1}
          onChange={(changed) => {
            change(at, changed);
          }}
          onBrowse={onBrowse}
          onRemove={() => {
            onChange({ ...sweep, rows: sweep.rows.filter((_, n) => n !== at) });
          }}
        />
      ))}
      <p className="quiet">
        Separate values by commas: 1e-4, 3e-4. One value alone is that of all trials; text that holds a comma stands in
        quotes.{sweep.search !== null && ' A search also takes ranges: 16..64, or 1e-5..1e-2:log.'}
      </p>
      <SearchRow
        search={sweep.search}
        onChange={(search) => {
          onChange({ ...sweep, search });
        }}
      />
      <div className="sweep-foot">
        <button
          type="button"
          className="btn"
          onClick={() => {
            onChange({ ...sweep, rows: [...sweep.rows, { name: '', text: '' }] });
          }}
        >
          <Plus size={14} aria-hidden /> Add a parameter
        </button>
        <label htmlFor={`${id}-jobs`}>
          Trials at a time{' '}
          <CountField
            id={`${id}-jobs`}
            most={MOST_JOBS}
            count={sweep.jobs}
            onCount={(jobs) => {
              onChange({ ...sweep, jobs });
            }}
          />
        </label>
      </div>
    </section>
  );
}

type CountFieldProps = { count: number; most: number; onCount: (count: number) => void } & ComponentProps<'input'>;

/** A number from 1 to `most`. It can be emptied to type another, and shows the one that counts when it is left. */
function CountField({ count, most, onCount, ...rest }: CountFieldProps) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      {...rest}
      className="input"
      type="number"
      min={1}
      max={most}
      value={typed ?? count}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        const wanted = countOf(currentTarget.valueAsNumber, most);
        if (wanted !== null) onCount(wanted);
      }}
      onBlur={() => {
        setTyped(null);
      }}
    />
  );
}

interface SearchRowProps {
  search: Sweep['search'];
  onChange: (search: Sweep['search']) => void;
}

/** Every combination, or so many trials that are chosen by what the ones before came to. */
function SearchRow({ search, onChange }: SearchRowProps) {
  return (
    <div className="sweep-search">
      <select
        className="input select"
        aria-label="Which trials"
        value={search === null ? 'all' : 'search'}
        onChange={(event) => {
          onChange(event.currentTarget.value === 'all' ? null : USUAL_SEARCH);
        }}
      >
        <option value="all">Every combination</option>
        <option value="search">Search for the best</option>
      </select>
      {search !== null && (
        <>
          <CountField
            aria-label="Trials"
            title="Trials"
            most={MOST_TRIALS}
            count={search.trials}
            onCount={(trials) => {
              onChange({ ...search, trials });
            }}
          />
          <span>trials, for the</span>
          <select
            className="input select"
            aria-label="Best when"
            value={search.maximise ? 'highest' : 'lowest'}
            onChange={(event) => {
              onChange({ ...search, maximise: event.currentTarget.value === 'highest' });
            }}
          >
            <option value="highest">highest</option>
            <option value="lowest">lowest</option>
          </select>
          <input
            className="input"
            aria-label="Figure"
            list="sweep-figures"
            placeholder="val_auc"
            value={search.figure}
            onChange={(event) => {
              onChange({ ...search, figure: event.currentTarget.value });
            }}
          />
          <datalist id="sweep-figures">
            {['val_auc', 'val_accuracy', 'val_f1', 'val_loss', 'val_mae'].map((figure) => (
              <option key={figure} value={figure} />
            ))}
          </datalist>
        </>
      )}
    </div>
  );
}

interface SweepRowProps {
  row: Row;
  number: number;
  onChange: (row: Partial<Row>) => void;
  onBrowse: (browsing: Browsing) => void;
  onRemove: () => void;
}

function SweepRow({ row, number, onChange, onBrowse, onRemove }: SweepRowProps) {
  const doc = useCanvas((s) => s.doc);
  const types = useCanvas((s) => s.types);
  const nodes = orderedNodes(doc).flatMap(([node, { type }]) => {
    const fields = own(types, type)?.fields ?? [];
    return fields.length > 0 ? [{ node, fields }] : [];
  });
  const swept = fieldAt(doc, types, row.name);
  return (
    <>
      <select
        className="input select"
        aria-label={`Parameter ${number}`}
        value={row.name}
        onChange={(event) => {
          onChange({ name: event.currentTarget.value });
        }}
      >
        <option value="">Choose a parameter</option>
        {Object.keys(doc.parameters).length > 0 && (
          <optgroup label="Pipeline">
            {Object.keys(doc.parameters).map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </optgroup>
        )}
        {nodes.map(({ node, fields }) => (
          <optgroup key={node} label={nameOf(doc, node)}>
            {fields.map(({ name, title }) => (
              <option key={name} value={`${node}.${name}`}>
                {`${nameOf(doc, node)} · ${title}`}
              </option>
            ))}
          </optgroup>
        ))}
      </select>
      <div className="input-row">
        <input
          className="input"
          aria-label={`Values ${number}`}
          placeholder="values, separated by commas"
          value={row.text}
          onChange={(event) => {
            onChange({ text: event.currentTarget.value });
          }}
        />
        {swept?.widget === 'path' && (
          <button
            type="button"
            className="btn"
            aria-label={`Browse for a value ${number}`}
            title="Add a path that you look for"
            onClick={() => {
              onBrowse(
                browsingFor(swept, lastPath(row.text), (path) => {
                  onChange({ text: withPath(row.text, path) });
                }),
              );
            }}
          >
            <FolderOpen size={14} aria-hidden /> Browse…
          </button>
        )}
      </div>
      <button type="button" className="btn btn-icon" aria-label={`Remove parameter ${number}`} onClick={onRemove}>
        <X size={14} aria-hidden />
      </button>
    </>
  );
}
