/** For tests: a small catalogue, arbitrary edits as a person makes them, and arbitrary documents made by such edits. */

import fc from 'fast-check';

import type { Doc, DocPosition, JsonValue, NodeTypeInfo, Op, PortInfo } from './protocol';
import { reaches, whyNot, type Types } from './rules/wiring';
import {
  addAnnotation,
  COLOURS,
  framed,
  moveAnnotations,
  placeAnnotation,
  setColour,
  setText,
} from './document/annotations';
import { arranged } from './document/arrange';
import { copyText, pasteText } from './rules/clipboard';
import {
  addNode,
  changeId,
  connect,
  moveNodes,
  reconnect,
  removeItems,
  removePipelineParameter,
  renamePipelineParameter,
  setDescription,
  setMode,
  setParameter,
  setPipelineParameter,
  setPolicy,
  setTitle,
} from './document/edits';
import { edgeKey, end, nextOrder, written } from './document/ends';
import { apply, EMPTY } from './document/ops';

function portOf(name: string, kinds: string[], required = true): PortInfo {
  return { name, kinds, required, help: '' };
}

export function nodeType(type: string, inputs: PortInfo[], outputs: PortInfo[]): NodeTypeInfo {
  const rest = {
    version: 1,
    category: 'Data',
    light: '#2459b8',
    dark: '#8ab4ff',
    icon: 'M3 12h18',
    keywords: [],
    summary: '',
    description: '',
    origin: 'built-in',
    backends: [],
    fields: [],
  };
  return { type, inputs, outputs, ...rest };
}

export const TYPES: Types = Object.fromEntries(
  [
    nodeType('Source', [], [portOf('out', ['Files'])]),
    nodeType('Pass', [portOf('in', ['Files'])], [portOf('out', ['Files'])]),
    nodeType('Pack', [portOf('files', ['Files'])], [portOf('table', ['Table'])]),
    nodeType(
      'Join',
      [portOf('left', ['Files', 'Table']), portOf('right', ['Table'], false)],
      [portOf('table', ['Table']), portOf('rest', ['Files'])],
    ),
    nodeType('Train', [portOf('data', ['Table'])], []),
  ].map((type) => [type.type, type]),
);

/** One thing that a person does; numbers point into whatever the document holds at that moment. */
export type Deed = { do: string; a: number; b: number; c: number; text: string; value: JsonValue };

const KINDS = [
  'add',
  'add',
  'add',
  'add',
  'connect',
  'connect',
  'connect',
  'connect',
  'connect',
  'reconnect',
  'remove',
  'cut',
  'move',
  'title',
  'parameter',
  'reset',
  'policy',
  'mode',
  'frame',
  'note',
  'write',
  'colour',
  'resize',
  'move frame',
  'remove annotation',
  'change id',
  'description',
  'pipeline parameter',
  'rename pipeline parameter',
  'remove pipeline parameter',
  'paste',
  'arrange',
] as const;

/** Ids and names that are fine for people and awkward for programs. */
const NAMES = ['a', 'b', 'C', 'constructor', '__proto__', 'toString', 'a_2', 'x-y'];

export const deed: fc.Arbitrary<Deed> = fc.record({
  do: fc.constantFrom(...KINDS),
  a: fc.nat(1000),
  b: fc.nat(1000),
  c: fc.nat(1000),
  text: fc.oneof(fc.constantFrom(...NAMES, '', '<script>', '${p}', '$${p} ${p}'), fc.string({ maxLength: 8 })),
  value: fc.oneof(
    fc.integer(),
    fc.boolean(),
    fc.string({ maxLength: 5 }),
    fc.constant('${a}'),
    fc.array(fc.integer(), { maxLength: 3 }),
  ),
});

/** What a deed does to a document; [] when there is nothing to do it to. */
export function opsOf(doc: Doc, { do: what, a, b, c, text, value }: Deed): Op[] {
  const ids = Object.keys(doc.nodes).sort();
  const keys = Object.keys(doc.edges).sort();
  const parameters = Object.keys(doc.parameters).sort();
  const id = pick(ids, a);
  const key = pick(keys, a);
  const drawn = pick(Object.keys(doc.annotations).sort(), a);
  const name = pick(NAMES, b) ?? 'a';
  const at: DocPosition = { x: b - 500, y: c - 500 };
  switch (what) {
    case 'add': {
      const type = pick(Object.values(TYPES), a);
      return type ? addNode(doc, type, at).ops : [];
    }
    case 'connect':
      return guarded(doc, a, b, (source, target) => connect(doc, source, target));
    case 'reconnect':
      return key === undefined ? [] : guarded(doc, b, c, (source, target) => reconnect(doc, key, source, target));
    case 'remove':
      return removeItems(doc, id === undefined ? [] : [id, pick(ids, b) ?? id], key === undefined ? [] : [key]);
    case 'cut':
      return key === undefined ? [] : removeItems(doc, [], [key]);
    case 'move':
      return moveNodes(doc, new Map(ids.filter((_, index) => index % 2 === a % 2).map((node) => [node, at])));
    case 'title':
      return id === undefined ? [] : setTitle(doc, id, text);
    case 'parameter':
      return id === undefined ? [] : setParameter(doc, id, name, value);
    case 'reset':
      return id === undefined ? [] : setParameter(doc, id, name, undefined);
    case 'policy':
      return id === undefined ? [] : setPolicy(doc, id, b % 2 ? 'retries' : 'timeout_s', 1 + (c % 100));
    case 'mode':
      return id === undefined ? [] : setMode(doc, [id], (['run', 'disabled', 'bypass'] as const)[b % 3] ?? 'run');
    case 'frame':
    case 'note':
      return addAnnotation(doc, what, { ...at, width: 100 + a, height: 60 + c }).ops;
    case 'write':
      return drawn === undefined ? [] : setText(doc, drawn, text);
    case 'colour':
      return drawn === undefined ? [] : setColour(doc, [drawn], pick(COLOURS, b) ?? 'grey');
    case 'resize':
      return drawn === undefined ? [] : placeAnnotation(doc, drawn, { width: b, height: c });
    case 'move frame': {
      if (drawn === undefined) return [];
      const held = framed(doc, drawn, new Map());
      return [
        ...moveAnnotations(doc, new Map([drawn, ...held.annotations].map((item) => [item, at]))),
        ...moveNodes(doc, new Map(held.nodes.map((node) => [node, at]))),
      ];
    }
    case 'remove annotation':
      return removeItems(doc, [], [], drawn === undefined ? [] : [drawn]);
    case 'change id':
      return id === undefined || Object.hasOwn(doc.nodes, name) ? [] : changeId(doc, id, name);
    case 'description':
      return setDescription(doc, text);
    case 'pipeline parameter':
      return setPipelineParameter(doc, name, value, text);
    case 'rename pipeline parameter':
      return renamePipelineParameter(doc, pick(parameters, a) ?? 'none', name);
    case 'remove pipeline parameter':
      return removePipelineParameter(doc, pick(parameters, a) ?? 'none');
    case 'paste':
      return (
        pasteText(
          doc,
          copyText(
            doc,
            ids.filter((_, index) => index % 3 === a % 3),
            drawn === undefined ? [] : [drawn],
          ),
          at,
        )?.ops ?? []
      );
    case 'arrange':
      return moveNodes(doc, arranged(doc, new Map()));
    default:
      throw new Error(`No deed ${what}.`);
  }
}

/** Ops for a wire between two ports, only where it may be drawn. */
function guarded(doc: Doc, a: number, b: number, make: (source: string, target: string) => Op[]): Op[] {
  const source = pick(portsOf(doc, 'outputs'), a);
  const target = pick(portsOf(doc, 'inputs'), b);
  return source && target && whyNot(doc, TYPES, source, target) === '' ? make(source, target) : [];
}

/** Every `node.port` on one side of the document. */
export function portsOf(doc: Doc, side: 'inputs' | 'outputs'): string[] {
  return Object.keys(doc.nodes)
    .sort()
    .flatMap((id) => (TYPES[doc.nodes[id]?.type ?? '']?.[side] ?? []).map((port) => written(id, port.name)));
}

function pick<T>(items: readonly T[], at: number): T | undefined {
  return items.length === 0 ? undefined : items[at % items.length];
}

export function after(doc: Doc, deeds: readonly Deed[]): Doc {
  return deeds.reduce((current, next) => apply(current, opsOf(current, next)), doc);
}

/** A document as people make them: with wires that fit, and without cycles. */
export const doc: fc.Arbitrary<Doc> = fc
  .array(deed, { minLength: 0, maxLength: 25 })
  .map((deeds) => after(EMPTY, deeds));

/** A document as a merge of two files leaves it: inputs wired twice, equal wires, wires to nodes that are not there. */
export const unlawful: fc.Arbitrary<Doc> = fc
  .tuple(doc, fc.array(fc.tuple(fc.nat(1000), fc.nat(1000), fc.boolean()), { minLength: 1, maxLength: 5 }))
  .map(([lawful, wires]) => {
    const edges = { ...lawful.edges };
    for (const [a, b, again] of wires) {
      const old = again ? pick(Object.values(lawful.edges), a) : undefined;
      const source = old?.source ?? pick([...portsOf(lawful, 'outputs'), 'gone.out', 'a.out'], a) ?? '';
      const target =
        (b % 2 === 0 ? old?.target : undefined) ?? pick([...portsOf(lawful, 'inputs'), 'lost.in'], b) ?? '';
      let key = edgeKey(source, target);
      for (let times = 2; Object.hasOwn(edges, key); times += 1) key = `${edgeKey(source, target)}#${times}`;
      edges[key] = { source, target, order: nextOrder(edges) };
    }
    return { ...lawful, edges };
  });

/** The document as text, whatever the order of its keys. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const items = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${items.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join()}}`;
}

/** The laws of wires: none into nowhere, one at most into an input, no cycles. "" when all hold. */
export function brokenLaw(doc: Doc): string {
  const targets = Object.values(doc.edges).map(({ target }) => target);
  if (new Set(targets).size !== targets.length) return 'an input has two wires';
  for (const [key, { source, target }] of Object.entries(doc.edges)) {
    if (key !== `${source}->${target}`) return `the key ${key} lies`;
    if (!Object.hasOwn(doc.nodes, end(source).node)) return `${source} is not there`;
    if (!Object.hasOwn(doc.nodes, end(target).node)) return `${target} is not there`;
    if (reaches(doc, end(target).node, end(source).node)) return `a cycle through ${key}`;
  }
  return '';
}

export function frozen<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}
