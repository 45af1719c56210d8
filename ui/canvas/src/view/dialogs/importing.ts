/** Pipelines as files of the person's own computer. */

import type { Exported } from '../../protocol';
import { size } from '../../rules/wording';
import type { App } from '../../state/app';

/** Far more than any pipeline is long; a file larger than that was picked by mistake. */
const MOST_BYTES = 5_000_000;

export async function importFile(app: App, file: File): Promise<void> {
  if (!/\.json$/i.test(file.name) && file.type !== 'application/json') {
    app.tell('warning', `${file.name} is no pipeline.`, 'Pipelines are .json files.');
  } else if (file.size > MOST_BYTES) {
    app.tell('warning', `${file.name} is too large for a pipeline: ${size(file.size)}.`);
  } else {
    try {
      app.say({ type: 'import', name: file.name, text: await file.text() });
    } catch {
      app.tell('error', `${file.name} cannot be read.`, 'Was it moved meanwhile? Choose it again.');
    }
  }
}

/** Hand a text to the browser's downloads. */
export function download({ name, text }: Exported): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The download takes its own hold of the text, but not at once.
  setTimeout(() => {
    URL.revokeObjectURL(url);
  }, 10_000);
}
