/** For tests: a declared parameter. */

import type { FieldInfo } from '../protocol';

/** A whole number with the default 5, but for `change`. */
export function declared(change: Partial<FieldInfo> = {}): FieldInfo {
  return {
    name: 'epochs',
    title: 'Epochs',
    type: 'int',
    help: 'passes over the volumes.',
    required: false,
    default: 5,
    low: null,
    high: null,
    choices: [],
    unit: '',
    path: null,
    secret: false,
    policy: false,
    extendable: false,
    advanced: false,
    optional: false,
    ...change,
  };
}
