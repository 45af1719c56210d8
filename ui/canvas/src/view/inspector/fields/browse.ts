/** The file browser, opened for a field that takes a path. */

import type { FieldInfo, JsonValue } from '../../../protocol';
import { shown } from '../../../rules/fields';
import { openDialog } from '../../../state/panels';

export function browse(field: FieldInfo, value: JsonValue | undefined, choose: (path: string) => void): void {
  openDialog({
    kind: 'browse',
    title: `Choose a ${field.path?.kind ?? 'file'}: ${field.title.toLowerCase()}`,
    folders: field.path?.kind === 'folder',
    write: field.path?.access === 'write',
    start: shown(value),
    choose,
  });
}
