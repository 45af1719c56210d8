/** A pipeline's parameters: who takes them, and so what kind of value each wants. */

import { orderedNodes } from '../document/ops';
import { own } from '../document/own';
import type { Doc, FieldInfo, JsonValue } from '../protocol';
import { ANY, shown } from './fields';
import type { Types } from './wiring';

export interface Use {
  readonly node: string;
  readonly field: string;
  /** Whether the field's value is `${name}` and nothing else, and so takes the value with its type. */
  readonly whole: boolean;
}

/** Names of the pipeline parameters in a value, in order of appearance. `$${` is a plain `${`. */
export function references(value: JsonValue | undefined): string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap(references))];
  if (typeof value !== 'string') return [];
  const found = [...value.matchAll(/\$(\$)?\{([^}]*)\}/g)].filter((match) => match[1] === undefined);
  return [...new Set(found.map((match) => match[2] ?? ''))];
}

/** The name when the value is one reference and nothing else. */
export function wholeReference(value: JsonValue | undefined): string | null {
  return typeof value === 'string' ? (/^\$\{([^}]*)\}$/.exec(value)?.[1] ?? null) : null;
}

export function reference(name: string): string {
  return `\${${name}}`;
}

/** Where the nodes take the parameter `name`. */
export function usesOf(doc: Doc, name: string): Use[] {
  return orderedNodes(doc).flatMap(([node, { params }]) =>
    Object.entries(params)
      .filter(([, value]) => references(value).includes(name))
      .map(([field, value]) => ({ node, field, whole: wholeReference(value) === name })),
  );
}

/** Parameters that have no value: a run must be given one. */
export function withoutValue(doc: Doc): string[] {
  return Object.entries(doc.parameters)
    .filter(([, parameter]) => parameter.value === null)
    .map(([name]) => name)
    .sort();
}

/**
 * The parameter as a field of a form: declared like the node fields that take it whole, where these
 * agree in type; else as plain text or JSON.
 */
export function fieldOf(doc: Doc, types: Types, name: string): FieldInfo {
  const fields = usesOf(doc, name)
    .filter((use) => use.whole)
    .flatMap((use) => {
      const type = own(types, own(doc.nodes, use.node)?.type ?? '');
      return type?.fields.filter((f) => f.name === use.field) ?? [];
    });
  const [first, ...others] = fields;
  const help = own(doc.parameters, name)?.help ?? '';
  const same =
    first &&
    others.every((f) => f.type === first.type && f.choices.map(shown).join() === first.choices.map(shown).join());
  if (!same) return { ...FREE, name, title: name, help };
  const low = tightest(
    fields.map((f) => f.low),
    Math.max,
  );
  const high = tightest(
    fields.map((f) => f.high),
    Math.min,
  );
  return {
    ...first,
    ...{ name, title: name, help: help || first.help, low, high },
    ...{ required: false, default: null, optional: true, advanced: false },
    // A switch shows no third state: a parameter without a value is neither on nor off.
    choices: first.type === 'bool' ? [true, false] : first.choices,
  };
}

function tightest(ends: readonly (number | null)[], pick: (...ends: number[]) => number): number | null {
  const known = ends.filter((n) => n !== null);
  return known.length > 0 ? pick(...known) : null;
}

/** A parameter that no node takes whole. */
const FREE: FieldInfo = {
  name: '',
  title: '',
  type: ANY,
  help: '',
  required: false,
  default: null,
  low: null,
  high: null,
  choices: [],
  unit: '',
  path: null,
  secret: false,
  policy: false,
  extendable: false,
  advanced: false,
  optional: true,
};
