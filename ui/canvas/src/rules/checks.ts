/**
 * Values held to a field's rules, which come from Python: engine/declare/field_rules.py does the same there, and
 * ui/protocol/cases/fields.json holds both to the same answers.
 */

import type { FieldInfo, JsonValue, RuleInfo } from '../protocol';

export type Read = { readonly value: JsonValue } | { readonly message: string };

/** The value that a node gets for `value`, or the message of the first rule that is broken. */
export function readBy(rules: readonly RuleInfo[], value: JsonValue): Read {
  const [first, ...rest] = rules;
  if (!first) return { value };
  if (first.check === 'list') {
    const items = itemsOf(value);
    if (!items) return { message: first.message };
    const read = items.map((item) => readBy(rest, item));
    const bad = read.find((item) => 'message' in item);
    return bad ?? { value: read.flatMap((item) => ('value' in item ? [item.value] : [])) };
  }
  const out = first.check === 'type' ? readAs(first.value as FieldInfo['type'], value) : value;
  if (out === null) return { message: first.message };
  const broken = rest.find((rule) => !holds(rule, out));
  return broken ? { message: broken.message } : { value: out };
}

type Scalar = boolean | number | string;

function holds(rule: RuleInfo, value: JsonValue): boolean {
  switch (rule.check) {
    case 'filled':
      return typeof value !== 'string' || value.trim() !== '';
    case 'one_of':
      return Array.isArray(rule.value) && rule.value.includes(value);
    case 'at_least':
      return Number(value) >= Number(rule.value);
    case 'at_most':
      return Number(value) <= Number(rule.value);
    case 'pattern':
      return typeof value === 'string' && typeof rule.value === 'string' && expression(rule.value).test(value);
    case 'list':
    case 'type':
      return true;
  }
}

const expressions = new Map<string, RegExp>();

/** The flags are what engine/declare/field_rules.py counts on. */
function expression(source: string): RegExp {
  const known = expressions.get(source) ?? new RegExp(`^(?:${source})$`, 'us');
  expressions.set(source, known);
  return known;
}

/** The value as the type; null when it is none. Text counts for what it says, as with `--set` on the command line. */
function readAs(type: FieldInfo['type'], value: JsonValue): Scalar | null {
  switch (type) {
    case 'str':
      return typeof value === 'string' ? value : null;
    case 'bool':
      return typeof value === 'string' ? truth(value) : typeof value === 'boolean' ? value : null;
    case 'int':
    case 'float': {
      const number = typeof value === 'string' ? numberIn(value) : value;
      return typeof number === 'number' && (type === 'float' || Number.isInteger(number)) ? number : null;
    }
    case 'any':
      return null;
  }
}

/** The number that a text is to Python, `1_000` among them; null when it is none. */
export function numberIn(text: string): number | null {
  const plain = text.trim().replace(/(?<=\d)_(?=\d)/g, '');
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  // JSON knows no -0.
  return Number.isFinite(value) ? value + 0 : null;
}

export function truth(text: string): boolean | null {
  if (/^(true|yes)$/i.test(text)) return true;
  return /^(false|no)$/i.test(text) ? false : null;
}

/** As Python writes a list or a tuple. */
export const BRACKETED = /^(\[.*\]|\(.*\))$/s;

/** The parts of a text with commas, in one pair of brackets or none. */
export function partsOf(text: string): string[] {
  const trimmed = text.trim();
  return (BRACKETED.test(trimmed) ? trimmed.slice(1, -1) : trimmed)
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function itemsOf(value: JsonValue): JsonValue[] | null {
  if (typeof value === 'string') return partsOf(value);
  return Array.isArray(value) ? value : null;
}
