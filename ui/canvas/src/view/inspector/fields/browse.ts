/** The file browser, opened for a field that takes a path. */

import type { FieldInfo, JsonValue } from '../../../protocol';
import { shown } from '../../../rules/fields';
import { openDialog, type Browsing } from '../../../state/panels';

export function browse(field: FieldInfo, value: JsonValue | undefined, choose: (path: string) => void): void {
  openDialog(browsingFor(field, value, choose));
}

/** What to look for; for a dialog that the file browser lies over. */
export function browsingFor(field: FieldInfo, value: JsonValue | undefined, choose: (path: string) => void): Browsing {
  return {
    kind: 'browse',
    title: `Choose a ${field.path?.kind ?? 'file'}: ${field.title.toLowerCase()}`,
    folders: field.path?.kind === 'folder',
    write: field.path?.access === 'write',
    start: shown(value),
    choose,
  };
}
