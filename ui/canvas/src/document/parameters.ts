/** Edits that bind node fields to the pipeline's parameters, and free them again. */

import type { Doc, FieldInfo, JsonValue, Op } from '../protocol';
import { removePipelineParameter, setParameter, setPipelineParameter } from './edits';
import { freeId, isId } from './ids';
import { own } from './own';
import { escaped, plain, reference, references } from './references';

/**
 * A new parameter of the pipeline with the field's value, and the field bound to it. `missing` is the
 * name that the field refers to already and that the pipeline does not have. Nothing for a value that takes
 * parameters in it: what a parameter holds is taken as it is.
 */
export function bindToNew(doc: Doc, node: string, field: FieldInfo, missing: string | null = null): Op[] {
  const wanted = [missing ?? '', field.name].find(isId) ?? 'parameter';
  const name = Object.hasOwn(doc.parameters, wanted) ? freeId(wanted, Object.keys(doc.parameters)) : wanted;
  const held = missing === null ? own(own(doc.nodes, node)?.params ?? {}, field.name) : undefined;
  if (references(held).length > 0) return [];
  return [
    ...setPipelineParameter(doc, name, held === undefined ? field.default : plain(held), field.help),
    ...setParameter(doc, node, field.name, reference(name)),
  ];
}

/** The field takes the value that its parameter holds now. */
export function unbind(doc: Doc, node: string, field: string, parameter: string): Op[] {
  return setParameter(doc, node, field, valueIn(doc, parameter));
}

/** Take a parameter away; fields that were nothing but it keep its value. */
export function removeAndKeepValues(doc: Doc, name: string): Op[] {
  const taken = reference(name);
  const uses = Object.entries(doc.nodes).flatMap(([id, node]) =>
    Object.entries(node.params)
      .filter(([, value]) => value === taken)
      .flatMap(([field]) => setParameter(doc, id, field, valueIn(doc, name))),
  );
  return [...uses, ...removePipelineParameter(doc, name)];
}

/** As a field has it; undefined for a parameter that has no value: the field's default. */
function valueIn(doc: Doc, parameter: string): JsonValue | undefined {
  const value = own(doc.parameters, parameter)?.value ?? undefined;
  return value === undefined ? undefined : escaped(value);
}
