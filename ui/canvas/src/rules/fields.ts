/** Forms from declarations: which control a field gets, and how text becomes a value and back. */

import type { FieldInfo, JsonValue } from '../protocol';
import { singular } from './wording';

export type Control = 'switch' | 'automatic' | 'choice' | 'number' | 'list' | 'path' | 'secret' | 'text';

const LIST = 'list of ';

/** The type of a pipeline parameter that no node takes whole: JSON where the text is JSON, else the text. */
export const ANY = 'any';

/** The control for a declared parameter. */
export function control(field: FieldInfo): Control {
  if (field.choices.length > 0) return 'choice';
  if (field.type === 'bool') return field.optional ? 'automatic' : 'switch';
  if (field.type.startsWith(LIST)) return 'list';
  if (field.type === 'int' || field.type === 'float') return 'number';
  if (field.path) return 'path';
  return field.secret ? 'secret' : 'text';
}

/** Whether the value takes a pipeline parameter, `${name}`, whole or in part. */
export function refers(value: JsonValue | undefined): boolean {
  return typeof value === 'string' && /(^|[^$])\$\{[^}]*\}/.test(value);
}

/** What a person sees for a value: lists with commas, brackets only for an empty one, nothing for null. */
export function shown(value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.length === 0 ? '[]' : value.map(shown).join(', ');
  if (typeof value === 'string') return value;
  return JSON.stringify(value);
}

/** What stands in the field's input. Where anything goes, a list is JSON, and so is a text that looks like it. */
export function written(field: FieldInfo, value: JsonValue | undefined): string {
  // Brackets of a list's first and last item are its own, not the list's.
  if (Array.isArray(value) && field.type !== ANY && value.length > 0) {
    const text = shown(value);
    return BRACKETED.test(text) ? `[${text}]` : text;
  }
  if (field.type !== ANY || value === null || value === undefined) return shown(value);
  return typeof value === 'string' && jsonOr(value.trim(), value) === value ? value : JSON.stringify(value);
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
  if (refers(text)) return text;
  if (field.type.startsWith(LIST)) return listOf(field.type.slice(LIST.length), text);
  if (field.choices.length > 0) return field.choices.find((choice) => shown(choice) === text) ?? text;
  if (field.type === 'int') return numberOr(trimmed, text);
  if (field.type === 'float') return numberIn(trimmed) ?? text;
  if (field.type === 'bool') return boolOr(trimmed, text);
  return field.type === ANY ? jsonOr(trimmed, text) : text;
}

/** An emptied field: none where that is possible, else what the declaration says; only text can be empty. */
function blank(field: FieldInfo, text: string): JsonValue | undefined {
  if (field.optional) return null;
  return control(field) === 'text' && field.type !== ANY && !field.required ? text : undefined;
}

/** As Python writes a list or a tuple. */
const BRACKETED = /^(\[.*\]|\(.*\))$/s;

function listOf(item: string, text: string): JsonValue {
  const trimmed = text.trim();
  const parts = (BRACKETED.test(trimmed) ? trimmed.slice(1, -1) : trimmed)
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  if (item === 'int') return parts.map((part) => numberOr(part, part));
  if (item === 'float') return parts.map((part) => numberIn(part) ?? part);
  return item === 'bool' ? parts.map((part) => boolOr(part, part)) : parts;
}

/** A whole number that a browser cannot hold exactly stays text, which Python reads to the last digit. */
function numberOr(text: string, otherwise: string): number | string {
  const value = numberIn(text);
  if (value === null) return otherwise;
  return Number.isInteger(value) && !Number.isSafeInteger(value) && /^[+-]?[\d_]+$/.test(text) ? otherwise : value;
}

/** The number that a text is to Python, `1_000` among them; null when it is none. */
function numberIn(text: string): number | null {
  const plain = text.trim().replace(/(?<=\d)_(?=\d)/g, '');
  const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
  return Number.isFinite(value) ? value : null;
}

function boolOr(text: string, otherwise: string): boolean | string {
  if (/^(true|yes)$/i.test(text)) return true;
  return /^(false|no)$/i.test(text) ? false : otherwise;
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

/** Whether a switch stands on: documents may say yes and no in words. */
export function isOn(value: JsonValue | undefined): boolean {
  return value === true || (typeof value === 'string' && boolOr(value.trim(), '') === true);
}

/** What the browser can see to be wrong at once; "" when nothing is. Python's checks have the last word. */
export function objection(field: FieldInfo, value: JsonValue | undefined): string {
  if (refers(value)) return '';
  if (value === undefined) return field.required ? 'Needs a value.' : '';
  if (value === null) return field.optional ? '' : 'Needs a value.';
  if (field.type === ANY) return '';
  if (field.type.startsWith(LIST)) return listObjection(field, value);
  if (field.choices.length > 0) {
    const known = field.choices.some((choice) => shown(choice) === shown(value));
    return known ? '' : `Must be one of ${field.choices.map(shown).join(', ')}.`;
  }
  return scalarObjection(field, field.type, value);
}

function listObjection(field: FieldInfo, value: JsonValue): string {
  const item = field.type.slice(LIST.length);
  const items = typeof value === 'string' ? listOf(item, value) : value;
  if (!Array.isArray(items)) return 'Must be a list, with commas.';
  return items.map((v) => (refers(v) ? '' : scalarObjection(field, item, v))).find((text) => text !== '') ?? '';
}

function scalarObjection(field: FieldInfo, type: string, value: JsonValue): string {
  if (type === 'str') return typeof value === 'string' ? emptyObjection(field, value) : 'Must be text.';
  if (type === 'bool') {
    const known = typeof value === 'boolean' || (typeof value === 'string' && boolOr(value, '') !== '');
    return known ? '' : 'Must be true or false.';
  }
  // Numbers may be written as text, as with `--set` on the command line.
  const number = typeof value === 'string' ? (numberIn(value) ?? value) : value;
  if (typeof number !== 'number') return type === 'int' ? 'Must be a whole number.' : 'Must be a number.';
  if (type === 'int' && !Number.isInteger(number)) return 'Must be a whole number.';
  if (field.low !== null && number < field.low) return `Must be at least ${bound(field, field.low)}.`;
  if (field.high !== null && number > field.high) return `Must be at most ${bound(field, field.high)}.`;
  return '';
}

function emptyObjection(field: FieldInfo, value: string): string {
  return field.required && value.trim() === '' ? 'Needs a value.' : '';
}

/** Whether the document says something else than the declaration. */
export function isChanged(field: FieldInfo, value: JsonValue | undefined): boolean {
  return value !== undefined && (field.required || !sameValue(value, field.default));
}

export function sameValue(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** What stands greyed in an empty field. */
export function placeholder(field: FieldInfo, value: JsonValue | undefined): string {
  if (value === null && field.default !== null) return 'none';
  if (field.required) return field.secret ? 'NAME_OF_A_VARIABLE' : '';
  return shown(field.default) || (field.optional ? 'none' : '');
}

/** `1 to 4,096 MB`, `at least 0`; "" without limits. */
export function limits(field: FieldInfo): string {
  const { low, high } = field;
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

/** A number one step up or down, inside the field's limits: ones for whole numbers, else the leading digit. */
export function stepped(field: FieldInfo, value: JsonValue | undefined, direction: 1 | -1): number {
  const given = Number(shown(value ?? field.default));
  const from = Number.isFinite(given) ? given : 0;
  const step = field.type === 'int' ? 1 : 10 ** Math.floor(Math.log10(Math.abs(from) || 1) - (from === 0 ? 1 : 0));
  const next = Number((from + direction * step).toPrecision(12));
  // Downwards from 0.001 comes 0.0009, not 0: zero is seldom what a rate is stepped to.
  const landed = field.type === 'float' && next === 0 && from !== 0 ? Number((from * 0.9).toPrecision(12)) : next;
  return Math.min(Math.max(landed, field.low ?? -Infinity), field.high ?? Infinity);
}
