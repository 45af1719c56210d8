/** Names of pipelines, as far as the browser can see what Python will say to one. */

import { MAX_NAME } from '../protocol';

/** Why a pipeline cannot be called so beside those of the names `others`; "" when it can. */
export function refused(name: string, others: readonly string[]): string {
  const wanted = name.trim();
  if (wanted === '') return 'Needs a name.';
  // As Python counts: a character beyond the first plane is one.
  const length = Array.from(wanted).length;
  if (length > MAX_NAME) return `Too long: ${length} characters, at most ${MAX_NAME}.`;
  return others.includes(wanted) ? `There is a pipeline called ${wanted} already: choose another name.` : '';
}

/** What is worth knowing of a name that can be used: files must differ in more than case. */
export function remark(name: string, others: readonly string[]): string {
  const alike = others.find((other) => other.toLowerCase() === name.trim().toLowerCase());
  return alike === undefined ? '' : `There is one called ${alike}: this one’s file gets a number after its name.`;
}
