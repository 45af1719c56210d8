/** Pipelines as files of the person's own computer. */

import type { Exported } from '../../protocol';
import { size } from '../../rules/wording';
import type { App } from '../../state/app';

/** Far more than any pipeline is long; a file larger than that was picked by mistake. */
const MOST_BYTES = 5_000_000;

export async function importFile(app: App, file: File): Promise<void> {
  if (!/\.json$/i.test(file.name) && file.type !== 'application/json') {
    app.notify('warning', `${file.name} is no pipeline.`, 'Pipelines are .json files.');
  } else if (file.size > MOST_BYTES) {
    app.notify('warning', `${file.name} is too large for a pipeline: ${size(file.size)}.`);
  } else {
    try {
      app.say({ type: 'import', name: file.name, text: await file.text() });
    } catch {
      app.notify('error', `${file.name} cannot be read.`, 'Was it moved meanwhile? Choose it again.');
    }
  }
}

function typeOf(name: string): string {
  return name.endsWith('.json') ? 'application/json' : 'text/plain';
}

/** The bytes that a text in base64 stands for. */
function unpacked(text: string): Blob {
  return new Blob([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], { type: 'application/zip' });
}

/** Hand a text to the browser's downloads. */
export function download({ name, text, packed }: Exported): void {
  const url = URL.createObjectURL(packed ? unpacked(text) : new Blob([text], { type: typeOf(name) }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download takes its own hold of the text, but not at once.
  setTimeout(() => {
    URL.revokeObjectURL(url);
  }, 10_000);
}
