/** The notes under a field: what the browser sees at once, and what Python's checks add to it. */

import type { FieldInfo, JsonValue, Problem } from '../protocol';
import { objection } from './fields';
import type { Severity } from './problems';
import { sentence } from './wording';

export interface Note {
  readonly severity: Severity;
  readonly text: string;
  readonly hint: string;
}

/** Python's words for what `objection` says: no value, a wrong value. */
const SAID_AT_ONCE = new Set(['VF202', 'VF203']);

/** The notes of a field with this value; `problems` may be those of the whole node. */
export function notesOf(field: FieldInfo, value: JsonValue | undefined, problems: readonly Problem[]): Note[] {
  const atOnce = objection(field, value);
  const found = problems
    .filter((p) => p.parameter === field.name && !(atOnce !== '' && SAID_AT_ONCE.has(p.code)))
    // The hint is often the field's help, which is shown anyway.
    .map((p) => ({
      severity: p.severity,
      text: sentence(p.message),
      hint: p.hint === field.help ? '' : sentence(p.hint),
    }));
  const all: Note[] = atOnce === '' ? found : [{ severity: 'error', text: atOnce, hint: '' }, ...found];
  return all.filter((note, index) => all.findIndex(({ text }) => text === note.text) === index);
}
