/** A pipeline's parameters: who takes them, and so what kind of value each wants. */

import { orderedNodes } from '../document/ops';
import { own } from '../document/own';
import { references, wholeReference } from '../document/references';
import { FREE_FIELD, type Doc, type FieldInfo, type RuleInfo } from '../protocol';
import { choicesOf } from './fields';
import type { Types } from './wiring';

export interface Use {
  readonly node: string;
  readonly field: string;
  /** Whether the field's value is `${name}` and nothing else, and so takes the value with its type. */
  readonly whole: boolean;
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
  const [first] = fields;
  const help = own(doc.parameters, name)?.help ?? '';
  const [sort, ...sorts] = fields.map((f) => JSON.stringify([f.type, f.many, choicesOf(f)]));
  if (!first || sorts.some((other) => other !== sort)) return { ...FREE_FIELD, name, title: name, help };
  return {
    ...first,
    ...{ name, title: name, help: help || first.help, rules: tightest(fields.map((f) => f.rules)) },
    ...{ required: false, default: null, optional: true, advanced: false },
    // A switch shows no third state: a parameter without a value is neither on nor off.
    widget: first.type === 'bool' && !first.many ? 'choice' : first.widget,
  };
}

/** The field that a sweep's `parameter` or `node.parameter` means; null: there is none. */
export function fieldAt(doc: Doc, types: Types, name: string): FieldInfo | null {
  if (Object.hasOwn(doc.parameters, name)) return fieldOf(doc, types, name);
  const [node = '', parameter = ''] = name.split('.');
  return own(types, own(doc.nodes, node)?.type ?? '')?.fields.find((field) => field.name === parameter) ?? null;
}

/** The rules of all the fields; of several limits the narrowest. */
function tightest(lists: readonly (readonly RuleInfo[])[]): RuleInfo[] {
  const out: RuleInfo[] = [];
  for (const rule of lists.flat()) {
    // The parameter itself may have no value.
    if (rule.check === 'filled') continue;
    const same = out.findIndex((other) => other.check === rule.check && (isLimit(rule) || equal(other, rule)));
    const before = out[same];
    if (!before) out.push(rule);
    else if (isLimit(rule) && isNarrower(rule, before)) out[same] = rule;
  }
  return out;
}

function isLimit({ check }: RuleInfo): boolean {
  return check === 'at_least' || check === 'at_most';
}

function isNarrower(rule: RuleInfo, than: RuleInfo): boolean {
  const more = Number(rule.value) - Number(than.value);
  return rule.check === 'at_least' ? more > 0 : more < 0;
}

function equal(a: RuleInfo, b: RuleInfo): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
