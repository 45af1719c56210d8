/** What is said of a dataset, in words. */

import { figureText } from '../../rules/runs';
import { plural, size } from '../../rules/wording';

/** `2,000 volumes`, `720 MB`, `version 1`, `val_loss 0.0004`: a fact of a dataset with its name. */
export function factText(name: string, value: number | string): string {
  if (typeof value === 'string') return value;
  if (name === 'bytes') return size(value);
  // `400 volumes`, but `version 1`.
  const word = name.replaceAll('_', ' ');
  return Number.isInteger(value) && /[^s]s$/.test(word) ? plural(value, word) : `${word} ${figureText(value)}`;
}
