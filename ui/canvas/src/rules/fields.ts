/** Forms from declarations: how text becomes a value and back, what is wrong with one, what is shown around it. */

import { plain, references } from '../document/references';
import { NEEDS_A_VALUE, type FieldInfo, type JsonValue, type RuleInfo } from '../protocol';
import { BRACKETED, numberIn, partsOf, readBy, truth } from './checks';
import { sentence, singular } from './wording';

/** The values to choose from; [] where there are none. */
export function choicesOf(field: FieldInfo): JsonValue[] {
  const listed = ruleOf(field, 'one_of')?.value;
  if (Array.isArray(listed)) return listed;
  return field.type === 'bool' ? [true, false] : [];
}

function ruleOf(field: FieldInfo, check: RuleInfo['check']): RuleInfo | undefined {
  return field.rules.find((rule) => rule.check === check);
}

function limitOf(field: FieldInfo, check: 'at_least' | 'at_most'): number | null {
  const limit = ruleOf(field, check)?.value;
  return typeof limit === 'number' ? limit : null;
}

/** Whether the value takes a pipeline parameter, `${name}`, whole or in part. */
export function refers(value: JsonValue | undefined): boolean {
  return typeof value === 'string' && references(value).length > 0;
}

/** What a person sees for a value: lists with commas, brackets only for an empty one, nothing for null. */
export function shown(value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.length === 0 ? '[]' : value.map(shown).join(', ');
  if (typeof value === 'string') return value;
  return JSON.stringify(value);
}

/** The text in the field's input. Where anything goes, a list is JSON, and so is a text that looks like it. */
export function written(field: FieldInfo, value: JsonValue | undefined): string {
  // Brackets of a list's first and last item are its own, not the list's.
  if (Array.isArray(value) && field.type !== 'any' && value.length > 0) {
    const text = shown(value);
    return BRACKETED.test(text) ? `[${text}]` : text;
  }
  if (field.type !== 'any' || value === null || value === undefined) return shown(value);
  // Blanks alone would be read as nothing.
  const isPlain = typeof value === 'string' && value.trim() !== '' && jsonOr(value.trim(), value) === value;
  return isPlain ? value : JSON.stringify(value);
}

/**
 * The value that typed text means for a field; undefined for nothing of its own: the default. Text that
 * fits no better stays text: the document keeps what was typed and the checks say what is wrong with
 * it, so that nothing typed is ever lost.
 */
export function valueOf(field: FieldInfo, text: string): JsonValue | undefined {
  const value = read(field, text);
  if (value === undefined || field.required) return value;
  return sameValue(value, field.default) ? undefined : value;
}

function read(field: FieldInfo, text: string): JsonValue | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return blank(field, text);
  // Where anything goes, references may stand inside of a list or an object.
  if (refers(text) && (field.type !== 'any' || field.many)) return text;
  if (field.many) return partsOf(text).map((part) => readOne(field, part, part));
  const choice = choicesOf(field).find((each) => shown(each) === text);
  return choice ?? (ruleOf(field, 'one_of') ? text : readOne(field, trimmed, text));
}

function readOne(field: FieldInfo, trimmed: string, otherwise: string): JsonValue {
  switch (field.type) {
    case 'int':
      return numberOr(trimmed, otherwise);
    case 'float':
      return numberIn(trimmed) ?? otherwise;
    case 'bool':
      return truth(trimmed) ?? otherwise;
    case 'str':
      return otherwise;
    case 'any':
      return jsonOr(trimmed, otherwise);
  }
}

/** An emptied field: none where that is possible, else what the declaration says; only text can be empty. */
function blank(field: FieldInfo, text: string): JsonValue | undefined {
  if (field.optional) return null;
  const stays = field.type === 'str' && !field.many && field.widget === 'text' && objection(field, text) === '';
  return stays ? text : undefined;
}

/** A whole number that a browser cannot hold exactly stays text, which Python reads to the last digit. */
function numberOr(text: string, otherwise: string): number | string {
  const value = numberIn(text);
  if (value === null) return otherwise;
  return Number.isInteger(value) && !Number.isSafeInteger(value) && /^[+-]?[\d_]+$/.test(text) ? otherwise : value;
}

/** As the command line reads `--set name=...`. */
function jsonOr(text: string, otherwise: string): JsonValue {
  if (numberIn(text) !== null) return numberOr(text, otherwise);
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return otherwise;
  }
}

/** Whether a switch is on: documents may say yes and no in words. */
export function isOn(value: JsonValue | undefined): boolean {
  return value === true || (typeof value === 'string' && truth(value.trim()) === true);
}

/** What the browser can see to be wrong at once; "" when nothing is. Python's checks have the last word. */
export function objection(field: FieldInfo, value: JsonValue | undefined): string {
  if (value === undefined) return field.required ? sentence(NEEDS_A_VALUE) : '';
  if (value === null) return field.optional ? '' : sentence(NEEDS_A_VALUE);
  if (refers(value)) return '';
  // What the parameters of a list's items will be is known when the pipeline runs.
  const known = Array.isArray(value) ? value.filter((item) => !refers(item)) : value;
  const read = readBy(field.rules, plain(known));
  return 'message' in read ? sentence(read.message) : '';
}

/** Whether the document says something else than the declaration. */
export function isChanged(field: FieldInfo, value: JsonValue | undefined): boolean {
  return value !== undefined && (field.required || !sameValue(value, field.default));
}

export function sameValue(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** What the field's input shows: the document's value, else the default that a run takes. */
export function inForce(field: FieldInfo, value: JsonValue | undefined): JsonValue | undefined {
  return value === undefined && !field.required ? field.default : value;
}

/** What stands in an empty field. */
export function placeholder(field: FieldInfo): string {
  return field.required ? field.placeholder : field.optional ? 'none' : '';
}

/** `1 to 4,096 MB`, `at least 0`; "" without limits. */
export function limits(field: FieldInfo): string {
  const low = limitOf(field, 'at_least');
  const high = limitOf(field, 'at_most');
  if (low !== null && high !== null) return `${digits(low)} to ${bound(field, high)}`;
  if (low !== null) return `at least ${bound(field, low)}`;
  return high !== null ? `at most ${bound(field, high)}` : '';
}

/** A limit with its unit: `1 volume`, `4,096 MB`. */
function bound(field: FieldInfo, limit: number): string {
  const unit = limit === 1 ? singular(field.unit) : field.unit;
  return unit ? `${digits(limit)} ${unit}` : digits(limit);
}

function digits(amount: number): string {
  if (amount !== 0 && Math.abs(amount) < 1e-4) return String(amount);
  return amount.toLocaleString('en-US', { maximumSignificantDigits: 15 });
}

/** A number one step up or down, inside the field's limits: the declared step, else ones or the leading digit. */
export function stepped(field: FieldInfo, value: JsonValue | undefined, direction: 1 | -1): number {
  const from = numberIn(shown(value ?? field.default)) ?? 0;
  const usual = field.type === 'int' ? 1 : 10 ** Math.floor(Math.log10(Math.abs(from) || 1) - (from === 0 ? 1 : 0));
  const sum = from + direction * (field.step ?? usual);
  const next = Number.isInteger(sum) ? sum : Number(sum.toPrecision(12));
  // Downwards from 0.001 comes 0.0009, not 0: zero is seldom what a rate is stepped to.
  const rate = field.type === 'float' && field.step === null;
  const landed = rate && next === 0 && from !== 0 ? Number((from * 0.9).toPrecision(12)) : next;
  return Math.min(Math.max(landed, limitOf(field, 'at_least') ?? -Infinity), limitOf(field, 'at_most') ?? Infinity);
}
