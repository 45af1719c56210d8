/** A field that takes its value from a parameter of the pipeline, and the menu that binds and frees it. */

import { Braces, Link2Off, Plus } from 'lucide-react';

import { setParameter } from '../../document/edits';
import { own } from '../../document/own';
import { bindToNew, unbind } from '../../document/parameters';
import { reference, references, wholeReference } from '../../document/references';
import type { FieldInfo } from '../../protocol';
import { shown } from '../../rules/fields';
import type { App } from '../../state/app';
import { useApp, useCanvas } from '../../state/hooks';
import { openDialog } from '../../state/panels';
import { Menu, type MenuGroups } from '../parts/Menu';

interface BindingProps {
  node: string;
  field: FieldInfo;
  /** The parameter's name. */
  parameter: string;
}

export function Binding({ node, field, parameter }: BindingProps) {
  const app = useApp();
  const known = useCanvas((s) => own(s.doc.parameters, parameter));
  const value = known ? (known.value === null ? 'no value' : shown(known.value)) : 'not there';
  return (
    <div className="chip" data-known={known !== undefined}>
      <button
        type="button"
        className="chip-open"
        aria-label={`${field.title} takes the pipeline’s parameter ${parameter}: ${value}`}
        title="Show the pipeline’s parameters"
        onClick={() => {
          openDialog({ kind: 'parameters' });
        }}
      >
        <Braces size={12} aria-hidden />
        <span className="chip-name">{parameter}</span>
        <span className="chip-value">{known && known.value !== null ? `= ${value}` : value}</span>
      </button>
      <button
        type="button"
        className="btn btn-icon btn-tiny"
        aria-label={`Unbind ${field.title}`}
        title="Give the field a value of its own"
        onClick={() => {
          app.edit(`Unbind ${field.title.toLowerCase()}`, unbind(app.state.doc, node, field.name, parameter));
        }}
      >
        <Link2Off size={12} aria-hidden />
      </button>
    </div>
  );
}

export function BindMenu({ node, field }: { node: string; field: FieldInfo }) {
  const app = useApp();
  return (
    <Menu
      label={`Bind ${field.title} to a pipeline parameter`}
      title="Take the value from a parameter of the pipeline"
      className="btn btn-icon btn-tiny"
      align="right"
      groups={() => bindings(app, node, field)}
    >
      <Braces size={12} aria-hidden />
    </Menu>
  );
}

function bindings(app: App, node: string, field: FieldInfo): MenuGroups {
  const { doc } = app.state;
  const held = own(own(doc.nodes, node)?.params ?? {}, field.name);
  const bound = wholeReference(held);
  const title = field.title.toLowerCase();
  const names = Object.keys(doc.parameters).sort();
  return [
    names
      .filter((name) => name !== bound)
      .map((name) => ({
        label: name,
        icon: <Braces size={14} />,
        hint: shown(doc.parameters[name]?.value),
        onSelect: () => {
          app.edit(`Bind ${title}`, setParameter(app.state.doc, node, field.name, reference(name)));
        },
      })),
    bound === null || !Object.hasOwn(doc.parameters, bound)
      ? [
          {
            label: 'New parameter with this value',
            icon: <Plus size={14} />,
            unavailable: bound === null && references(held).length > 0 ? 'The value takes a parameter already' : '',
            onSelect: () => {
              app.edit(`Bind ${title}`, bindToNew(app.state.doc, node, field, bound));
            },
          },
        ]
      : [],
    bound === null
      ? []
      : [
          {
            label: 'Value of its own',
            icon: <Link2Off size={14} />,
            onSelect: () => {
              app.edit(`Unbind ${title}`, unbind(app.state.doc, node, field.name, bound));
            },
          },
        ],
  ];
}
