/** Ids of new nodes: the type's name as words, with a number when it is taken. */

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

export function isId(text: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(text);
}
