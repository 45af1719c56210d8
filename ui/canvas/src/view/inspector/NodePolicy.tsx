/** How a node is run, whatever it does: how often to try again, and for how long. */

import { useId, useState } from 'react';

import { setPolicy } from '../../document/edits';
import { own } from '../../document/own';
import type { FieldInfo, JsonValue } from '../../protocol';
import { objection } from '../../rules/fields';
import type { Note } from '../../rules/notes';
import { useApp, useCanvas } from '../../state/hooks';
import { ValueControl } from './fields/controls';
import { FieldFrame } from './fields/FieldFrame';

const BASE: FieldInfo = {
  name: '',
  title: '',
  type: 'int',
  help: '',
  required: false,
  default: null,
  low: 0,
  high: null,
  choices: [],
  unit: '',
  path: null,
  secret: false,
  policy: true,
  extendable: false,
  advanced: true,
  optional: false,
};

const FIELDS: readonly (FieldInfo & { name: 'retries' | 'timeout_s' })[] = [
  { ...BASE, name: 'retries', title: 'Retries', default: 0, high: 100, help: 'how often to try again after a failure' },
  {
    ...BASE,
    name: 'timeout_s',
    title: 'Time limit',
    type: 'float',
    low: 1,
    unit: 's',
    optional: true,
    help: 'an attempt that takes longer is stopped',
  },
];

export function NodePolicy({ id }: { id: string }) {
  return FIELDS.map((field) => <PolicyField key={field.name} node={id} field={field} />);
}

/** The document takes only good values here: what does not fit is told, and forgotten when the field is left. */
function PolicyField({ node, field }: { node: string; field: (typeof FIELDS)[number] }) {
  const app = useApp();
  const id = useId();
  const [refusal, setRefusal] = useState('');
  const held = useCanvas((s) => own(s.doc.nodes, node)?.[field.name]);
  const value = held === field.default ? undefined : held;
  const change = (next: JsonValue | undefined) => {
    const wanted = next === undefined ? field.default : next;
    if (wanted !== null && typeof wanted !== 'number') {
      setRefusal('Must be a number.');
      return;
    }
    const why = objection(field, wanted);
    setRefusal(why);
    if (why !== '') return;
    app.edit(
      `Set ${field.title.toLowerCase()}`,
      setPolicy(app.state.doc, node, field.name, wanted),
      `${node}.${field.name}`,
    );
  };
  const notes: Note[] = refusal === '' ? [] : [{ severity: 'error', text: refusal, hint: '' }];
  return (
    <FieldFrame field={field} id={id} descriptionId={`${id}-notes`} changed={value !== undefined} notes={notes}>
      <ValueControl
        field={field}
        value={value}
        id={id}
        describedBy={`${id}-notes`}
        invalid={notes.length > 0}
        onChange={change}
        onDone={() => {
          setRefusal('');
          app.seal();
        }}
      />
    </FieldFrame>
  );
}
