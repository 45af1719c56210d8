/** The pipeline's parameters: values that several nodes take, and that a run may be given anew. */

import { Plus, Trash2 } from 'lucide-react';
import { useId, useMemo, useState } from 'react';

import { renamePipelineParameter, setPipelineParameter } from '../../document/edits';
import { isId } from '../../document/ids';
import { removeAndKeepValues } from '../../document/parameters';
import { reference } from '../../document/references';
import type { DocParameter, JsonValue } from '../../protocol';
import { notesOf } from '../../rules/notes';
import { fieldOf, usesOf, type Use } from '../../rules/parameters';
import { nameOf } from '../../rules/ports';
import { plural } from '../../rules/wording';
import type { App } from '../../state/app';
import { useApp, useCanvas } from '../../state/hooks';
import { closeDialog, openDialog, panels } from '../../state/panels';
import { Menu } from '../parts/Menu';
import { browse } from './fields/browse';
import { ValueControl } from './fields/controls';
import { FieldFrame } from './fields/FieldFrame';
import { useTyped } from '../parts/typed';
import { TypedArea } from './fields/TypedArea';

export function PipelineParameters() {
  const parameters = useCanvas((s) => s.doc.parameters);
  const names = Object.keys(parameters).sort();
  return (
    <div className="parameters">
      {names.length === 0 && (
        <p className="quiet">
          None yet. A parameter is a value with a name: nodes take it with <code>{reference('name')}</code>, and each
          run may be given another.
        </p>
      )}
      {names.map((name) => {
        const parameter = parameters[name];
        return parameter && <Parameter key={name} name={name} parameter={parameter} />;
      })}
      <NewParameter />
    </div>
  );
}

function Parameter({ name, parameter }: { name: string; parameter: DocParameter }) {
  const app = useApp();
  const id = useId();
  const doc = useCanvas((s) => s.doc);
  const types = useCanvas((s) => s.types);
  const field = useMemo(() => ({ ...fieldOf(doc, types, name), help: '' }), [doc, types, name]);
  const uses = useMemo(() => usesOf(doc, name), [doc, name]);
  const value = parameter.value ?? undefined;
  const notes = value === undefined ? [] : notesOf(field, value, []);
  const change = (next: JsonValue | undefined) => {
    const ops = setPipelineParameter(app.state.doc, name, next ?? null, parameter.help);
    app.edit(`Set ${name}`, ops, `parameter ${name} value`);
  };
  return (
    <div className="parameter" data-parameter={name}>
      <div className="parameter-head">
        <Name name={name} />
        {uses.length > 0 ? <Uses app={app} uses={uses} /> : <span className="quiet">not used</span>}
        <button
          type="button"
          className="btn btn-icon btn-tiny"
          aria-label={`Remove ${name}`}
          title="Remove it; fields that take it keep its value"
          onClick={() => {
            app.edit(`Remove ${name}`, removeAndKeepValues(app.state.doc, name));
          }}
        >
          <Trash2 size={12} aria-hidden />
        </button>
      </div>
      <FieldFrame
        field={{ ...field, title: `Value of ${name}` }}
        id={id}
        descriptionId={`${id}-notes`}
        notes={notes}
        nameless
      >
        <ValueControl
          field={{ ...field, title: name }}
          value={value}
          id={id}
          describedBy={`${id}-notes`}
          invalid={notes.length > 0}
          onChange={change}
          onDone={() => {
            app.seal();
          }}
          onBrowse={() => {
            // The browser takes the place of the dialog with the parameters, which comes back.
            const { dialog } = panels.getState();
            browse({ ...field, title: name }, value, (path) => {
              app.seal();
              change(path);
              app.seal();
              if (dialog?.kind === 'parameters') openDialog(dialog);
            });
          }}
        />
      </FieldFrame>
      <Help name={name} parameter={parameter} />
    </div>
  );
}

/** The name, taken when it is good and the field is left. */
function Name({ name }: { name: string }) {
  const app = useApp();
  const [typed, setTyped] = useState<string | null>(null);
  const refusal = useCanvas((s) =>
    typed === null || typed === name ? '' : refused(typed, Object.keys(s.doc.parameters)),
  );
  const take = () => {
    setTyped(null);
    if (typed === null || typed === name || refusal !== '') return;
    app.edit(`Rename ${name} to ${typed}`, renamePipelineParameter(app.state.doc, name, typed));
  };
  return (
    <span className="parameter-name">
      <input
        className="input input-mono input-quiet"
        aria-label={`Name of parameter ${name}`}
        spellCheck={false}
        value={typed ?? name}
        aria-invalid={refusal !== ''}
        title={refusal || `Nodes take it with ${reference(name)}`}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') take();
        }}
        onBlur={take}
      />
      {refusal && (
        <span role="alert" className="field-note note-error">
          {refusal}
        </span>
      )}
    </span>
  );
}

function refused(name: string, taken: readonly string[]): string {
  if (!isId(name)) return 'Letters, digits, _ and -, beginning with a letter.';
  return taken.includes(name) ? 'There is one called so.' : '';
}

function Uses({ app, uses }: { app: App; uses: readonly Use[] }) {
  return (
    <Menu
      label={`Used in ${plural(uses.length, 'fields')}`}
      className="link quiet"
      align="right"
      groups={() => [
        uses.map(({ node, field }) => ({
          label: `${nameOf(app.state.doc, node)}: ${field}`,
          onSelect: () => {
            closeDialog();
            app.goTo(node, field);
          },
        })),
      ]}
    >
      used in {plural(uses.length, 'fields')}
    </Menu>
  );
}

function Help({ name, parameter }: { name: string; parameter: DocParameter }) {
  const app = useApp();
  const typed = useTyped(parameter.help, (text) => {
    const ops = setPipelineParameter(app.state.doc, name, parameter.value, text);
    app.edit(`Set help of ${name}`, ops, `parameter ${name} help`);
  });
  return (
    <TypedArea
      typed={typed}
      className="input input-quiet input-grows"
      rows={1}
      aria-label={`Help of parameter ${name}`}
      placeholder="What is it?"
    />
  );
}

function NewParameter() {
  const app = useApp();
  const [name, setName] = useState('');
  const refusal = useCanvas((s) => (name === '' ? '' : refused(name, Object.keys(s.doc.parameters))));
  return (
    <form
      className="parameter-new"
      onSubmit={(event) => {
        event.preventDefault();
        if (name === '' || refusal !== '') return;
        app.edit(`Add ${name}`, setPipelineParameter(app.state.doc, name, null, ''));
        setName('');
      }}
    >
      <div className="input-row">
        <input
          className="input input-mono"
          aria-label="Name of a new parameter"
          placeholder="new_parameter"
          spellCheck={false}
          value={name}
          aria-invalid={refusal !== ''}
          onChange={(event) => {
            setName(event.currentTarget.value);
          }}
        />
        <button type="submit" className="btn" disabled={name === '' || refusal !== ''}>
          <Plus size={14} aria-hidden /> Add
        </button>
      </div>
      {refusal && (
        <p role="alert" className="field-note note-error">
          {refusal}
        </p>
      )}
    </form>
  );
}
