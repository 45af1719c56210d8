/** What surrounds every control of a form: name, tools, what is wrong, help. */

import type { ReactNode } from 'react';

import type { FieldInfo } from '../../../protocol';
import { limits } from '../../../rules/fields';
import type { Note } from '../../../rules/notes';
import { sentence } from '../../../rules/wording';
import { WithCode } from '../../parts/WithCode';

interface FieldFrameProps {
  field: FieldInfo;
  /** The control's id; "" when there is none to be labelled. */
  id: string;
  descriptionId: string;
  changed?: boolean;
  notes: readonly Note[];
  tools?: ReactNode;
  /** The name is for screen readers only: what is above says it already. */
  nameless?: boolean;
  children: ReactNode;
}

export function FieldFrame(props: FieldFrameProps) {
  const { field, id, descriptionId, changed = false, notes, tools, nameless = false, children } = props;
  const hint = [field.help, limits(field), field.hint].map(sentence).join(' ').trim();
  return (
    <div className="field" data-field={field.name} data-changed={changed}>
      <div className={nameless ? 'visually-hidden' : 'field-head'}>
        <label htmlFor={id} title={field.name}>
          {field.title}
        </label>
        {field.required && (
          <span className="field-required" aria-hidden title="Needs a value">
            *
          </span>
        )}
        {changed && <span className="field-dot" title="Changed from its default" aria-hidden />}
        <span className="field-tools">{tools}</span>
      </div>
      {children}
      <div id={descriptionId}>
        {notes.map((note) => (
          <p
            key={note.severity + note.text}
            role="alert"
            className={`field-note note-${note.severity}`}
            data-field={field.name}
          >
            {note.text}
            {note.hint && (
              <span className="note-hint">
                {' '}
                <WithCode text={note.hint} />
              </span>
            )}
          </p>
        ))}
        {hint && (
          <p className="field-help" title={hint}>
            {hint}
          </p>
        )}
      </div>
    </div>
  );
}
