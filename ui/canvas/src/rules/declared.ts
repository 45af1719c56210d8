/** For tests: a declared parameter. */

import { FREE_FIELD, type FieldInfo, type JsonValue, type RuleInfo } from '../protocol';
import { shown } from './fields';

const KINDS = { bool: 'true or false', int: 'a whole number', float: 'a number', str: 'text', any: '' };

interface Declared extends Omit<FieldInfo, 'rules'> {
  low: number;
  high: number;
  choices: JsonValue[];
}

/** A whole number with the default 5, but for `change`; the rules are made of it, as engine/declare/parameters.py does. */
export function declared(change: Partial<Declared> = {}): FieldInfo {
  const { low, high, choices, ...fields } = change;
  const field: FieldInfo = {
    ...FREE_FIELD,
    ...{ name: 'epochs', title: 'Epochs', help: 'passes over the volumes.', type: 'int', optional: false, default: 5 },
    ...fields,
  };
  const kind = KINDS[field.type];
  const rules: (RuleInfo | false)[] = [
    field.many && { check: 'list', value: null, message: `must be a list, each item ${kind}` },
    field.type !== 'any' && { check: 'type', value: field.type, message: `must be ${kind}` },
    field.required && field.type === 'str' && { check: 'filled', value: null, message: 'needs a value' },
    choices !== undefined && {
      check: 'one_of',
      value: choices,
      message: `must be one of ${choices.map(shown).join(', ')}`,
    },
    low !== undefined && { check: 'at_least', value: low, message: `must be at least ${low}` },
    high !== undefined && { check: 'at_most', value: high, message: `must be at most ${high}` },
  ];
  return { ...field, rules: rules.filter((rule) => rule !== false) };
}
