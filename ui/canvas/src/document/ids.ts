/**
 * Ids of new nodes: the type's name as words, with a number when it is taken.
 *
 * Two tabs that add a node in the same half second know nothing of each other's: the later one would
 * take the place of the earlier. So while others edit too, ids carry their tab's mark.
 */

import { ID_PATTERN } from '../protocol';

const ID = new RegExp(ID_PATTERN);

/** `NumpyToParquet` -> `numpy_to_parquet`, `TrainResNet3D` -> `train_res_net3d`. */
export function idFromType(type: string): string {
  const words = type
    .replace(/([a-z0-9])([A-Z][a-z])/g, '$1_$2')
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replace(/[^a-z0-9_]/g, '_')
    .slice(0, 56);
  return /^[a-z_]/.test(words) ? words : `_${words}`;
}

/** `wanted`, else `wanted_2`, `wanted_3`, ... Ids must differ in more than case: folders are named after them. */
export function freeId(wanted: string, taken: Iterable<string>): string {
  const used = new Set([...taken].map((id) => id.toLowerCase()));
  if (!used.has(wanted.toLowerCase())) return wanted;
  const stem = wanted.replace(/_\d+$/, '').slice(0, 56);
  for (let n = 2; ; n += 1) {
    if (!used.has(`${stem}_${n}`.toLowerCase())) return `${stem}_${n}`;
  }
}

/** `wanted` as only this tab makes it; without a mark (nobody else is there) as it is. */
export function marked(wanted: string, mark: string): string {
  if (mark === '' || new RegExp(`_${mark}(_\\d+)?$`).test(wanted)) return wanted;
  return `${wanted.replace(/_\d+$/, '').slice(0, 50)}_${mark}`;
}

/** A tab's mark: a letter and three more, always the same for the same tab. */
export function markOf(client: string): string {
  let hash = 7;
  for (const letter of client) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0;
  return `t${hash.toString(36).padStart(3, '0').slice(-3)}`;
}

export function isId(text: string): boolean {
  return ID.test(text);
}
