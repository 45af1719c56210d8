/** How a node is run, whatever it does: how often to try again, and for how long. */

import { useId, useState } from 'react';

import { setPolicy } from '../../document/edits';
import { own } from '../../document/own';
import { POLICY_FIELDS, type JsonValue } from '../../protocol';
import { objection } from '../../rules/fields';
import type { Note } from '../../rules/notes';
import { useApp, useCanvas } from '../../state/hooks';
import { ValueControl } from './fields/controls';
import { FieldFrame } from './fields/FieldFrame';

type Policy = keyof typeof POLICY_FIELDS;

export function NodePolicy({ id }: { id: string }) {
  return (Object.keys(POLICY_FIELDS) as Policy[]).map((name) => <PolicyField key={name} node={id} name={name} />);
}

/** The document takes only good values here: what does not fit is reported, and forgotten when the field is left. */
function PolicyField({ node, name }: { node: string; name: Policy }) {
  const field = POLICY_FIELDS[name];
  const app = useApp();
  const id = useId();
  const [refusal, setRefusal] = useState('');
  const held = useCanvas((s) => own(s.doc.nodes, node)?.[name]);
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
    app.edit(`Set ${field.title.toLowerCase()}`, setPolicy(app.state.doc, node, name, wanted), `${node}.${name}`);
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
