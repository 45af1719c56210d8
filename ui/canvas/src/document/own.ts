/** Looking up by names that people choose: a node may be called `constructor`, which every plain object has. */

export function own<T>(items: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(items, key) ? items[key] : undefined;
}
