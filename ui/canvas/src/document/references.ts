/** `${name}` in values: where they take a parameter of the pipeline. `$${` is a plain `${`. */

import type { JsonValue } from '../protocol';

const REFERENCE = /\$(\$)?\{([^}]*)\}/g;

/** Names of the pipeline parameters in a value, in order of appearance. */
export function references(value: JsonValue | undefined): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap(references))];
  if (typeof value !== 'string') return [];
  const found = [...value.matchAll(REFERENCE)].filter((match) => match[1] === undefined);
  return [...new Set(found.map((match) => match[2] ?? ''))];
}

/** The name when the value is one reference and nothing else. */
export function wholeReference(value: JsonValue | undefined): string | null {
  return typeof value === 'string' ? (/^\$\{([^}]*)\}$/.exec(value)?.[1] ?? null) : null;
}

export function reference(name: string): string {
  return `\${${name}}`;
}

/** The value with another name in place of `name`. */
export function renamed(value: JsonValue, name: string, to: string): JsonValue {
  return replaced(value, (text, escaped, found) => (!escaped && found === name ? reference(to) : text));
}

/** A value without references as the node gets it: `$${` become `${`. */
export function plain(value: JsonValue): JsonValue {
  return replaced(value, (text, escaped) => (escaped ? text.slice(1) : text));
}

/** A value that a node gets as it is, whatever it looks like: `${` become `$${`. Undoes `plain`. */
export function escaped(value: JsonValue): JsonValue {
  return replaced(value, (text) => `$${text}`);
}

function replaced(
  value: JsonValue,
  change: (text: string, escaped: string | undefined, name: string) => string,
): JsonValue {
  if (Array.isArray(value)) return value.map((item) => replaced(item, change));
  return typeof value === 'string' ? value.replace(REFERENCE, change) : value;
}
