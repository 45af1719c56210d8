/** A node's parameter as a field: the control, what is wrong, its way back to the default, its binding. */

import { RotateCcw } from 'lucide-react';
import { useId, useState } from 'react';

import { setParameter } from '../../document/edits';
import { own } from '../../document/own';
import { wholeReference } from '../../document/references';
import type { Doc, FieldInfo, JsonValue } from '../../protocol';
import { isChanged, shown } from '../../rules/fields';
import { notesOf } from '../../rules/notes';
import { pinnedTo } from '../../rules/problems';
import { useApp, useCanvas } from '../../state/hooks';
import { AllowFolder } from '../parts/AllowFolder';
import { Binding, BindMenu } from './Binding';
import { browse } from './fields/browse';
import { ValueControl } from './fields/controls';
import { FieldFrame } from './fields/FieldFrame';

export function ParameterField({ node, field }: { node: string; field: FieldInfo }) {
  const app = useApp();
  const id = useId();
  const [typing, setTyping] = useState(false);
  const value = useCanvas((s) => valueAt(s.doc.nodes, node, field.name));
  const problems = useCanvas((s) => pinnedTo(s.problems, node));
  const notes = notesOf(field, value, problems);
  // While `${...}` is being typed the text field stays, else the letters after it went nowhere.
  const bound = typing ? null : wholeReference(value);
  const changed = isChanged(field, value);
  const change = (next: JsonValue | undefined) => {
    const label = `Set ${field.title.toLowerCase()}`;
    app.edit(label, setParameter(app.state.doc, node, field.name, next), `${node}.${field.name}`);
  };
  const done = () => {
    app.seal();
  };
  const tools = (
    <>
      {changed && !field.required && (
        <button
          type="button"
          className="btn btn-icon btn-tiny"
          aria-label={`Reset ${field.title}`}
          title={`Back to the default: ${shown(field.default) || 'none'}`}
          onClick={() => {
            app.seal();
            app.edit(`Reset ${field.title.toLowerCase()}`, setParameter(app.state.doc, node, field.name, undefined));
          }}
        >
          <RotateCcw size={12} aria-hidden />
        </button>
      )}
      <BindMenu node={node} field={field} />
    </>
  );
  return (
    <FieldFrame
      field={field}
      id={bound === null ? id : ''}
      descriptionId={`${id}-notes`}
      changed={changed}
      notes={notes}
      tools={tools}
    >
      {bound === null ? (
        <div
          onFocus={() => {
            setTyping(true);
          }}
          onBlur={() => {
            setTyping(false);
          }}
        >
          <ValueControl
            field={field}
            value={value}
            id={id}
            describedBy={`${id}-notes`}
            invalid={notes.some(({ severity }) => severity === 'error')}
            onChange={change}
            onDone={done}
            onBrowse={() => {
              browse(field, value, (path) => {
                app.seal();
                change(path);
                app.seal();
              });
            }}
          />
        </div>
      ) : (
        <Binding node={node} field={field} parameter={bound} />
      )}
      {problems
        .filter(({ parameter }) => parameter === field.name)
        .map((problem) => (
          <AllowFolder key={problem.code} problem={problem} />
        ))}
    </FieldFrame>
  );
}

function valueAt(nodes: Doc['nodes'], node: string, name: string): JsonValue | undefined {
  const params = own(nodes, node)?.params;
  return params && own(params, name);
}
