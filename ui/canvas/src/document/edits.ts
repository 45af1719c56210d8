/** What a person does to a document, as ops. Each function is one step of undo; none changes anything by itself. */

import type { Doc, DocEdge, DocNode, DocPosition, JsonValue, NodeTypeInfo, Op } from '../protocol';
import { edgeInto, edgeKey, edgesAt, end, nextOrder, written } from './ends';
import { freeId, idFromType, marked } from './ids';
import { asIn, remove, set } from './ops';
import { own } from './own';
import { renamed } from './references';

/**
 * A new node with the type's defaults left unsaid: the file holds only what differs from them. `mark` is
 * the tab's while others edit too.
 */
export function addNode(doc: Doc, type: NodeTypeInfo, position: DocPosition, mark = ''): { id: string; ops: Op[] } {
  const id = freeId(marked(idFromType(type.type), mark), Object.keys(doc.nodes));
  const node: DocNode = {
    type: type.type,
    version: type.version,
    title: '',
    params: {},
    position: rounded(position),
    retries: 0,
    timeout_s: null,
    mode: 'run',
    ui: {},
    order: nextOrder(doc.nodes),
  };
  return { id, ops: [set(['nodes', id], node)] };
}

/** Remove nodes with every wire at them, single wires, and frames or notes; what a frame held stays. */
export function removeItems(
  doc: Doc,
  nodes: readonly string[],
  edges: readonly string[],
  annotations: readonly string[] = [],
): Op[] {
  const gone = new Set(nodes);
  const cut = new Set([...edges, ...edgesAt(doc, gone).map(([key]) => key)]);
  return [
    ...[...cut].filter((key) => Object.hasOwn(doc.edges, key)).map((key) => remove(['edges', key])),
    ...[...gone].filter((id) => Object.hasOwn(doc.nodes, id)).map((id) => remove(['nodes', id])),
    ...annotations.filter((id) => Object.hasOwn(doc.annotations, id)).map((id) => remove(['annotations', id])),
  ];
}

/** Wire an output to an input; a wire that already ends there is replaced: an input takes one. */
export function connect(doc: Doc, source: string, target: string): Op[] {
  const key = edgeKey(source, target);
  if (Object.hasOwn(doc.edges, key)) return [];
  const before = edgeInto(doc, target);
  return [
    ...(before ? [remove(['edges', before[0]])] : []),
    set(['edges', key], { source, target, order: before ? before[1].order : nextOrder(doc.edges) }),
  ];
}

/** Take a wire by one end to another place. */
export function reconnect(doc: Doc, edge: string, source: string, target: string): Op[] {
  const old = own(doc.edges, edge);
  if (!old || edge === edgeKey(source, target)) return [];
  const inTheWay = edgeInto(doc, target);
  return [
    remove(['edges', edge]),
    ...(inTheWay && inTheWay[0] !== edge ? [remove(['edges', inTheWay[0]])] : []),
    set(['edges', edgeKey(source, target)], { source, target, order: old.order }),
  ];
}

/** Put a node, new or already there, into a wire: source -> node -> target. */
export function insertOnEdge(doc: Doc, edge: string, node: string, input: string, output: string): Op[] {
  const old = own(doc.edges, edge);
  if (!old) return [];
  const into = written(node, input);
  const from = written(node, output);
  return [
    remove(['edges', edge]),
    set(['edges', edgeKey(old.source, into)], { source: old.source, target: into, order: old.order }),
    set(['edges', edgeKey(from, old.target)], { source: from, target: old.target, order: nextOrder(doc.edges) }),
  ];
}

export function moveNodes(doc: Doc, positions: ReadonlyMap<string, DocPosition>): Op[] {
  return [...positions]
    .map(([id, position]) => [id, rounded(position)] as const)
    .filter(([id, to]) => {
      const from = own(doc.nodes, id)?.position;
      return from !== undefined && (from.x !== to.x || from.y !== to.y);
    })
    .map(([id, position]) => set(['nodes', id, 'position'], position));
}

export function setTitle(doc: Doc, id: string, title: string): Op[] {
  const node = own(doc.nodes, id);
  return node && node.title !== title ? [set(['nodes', id, 'title'], title)] : [];
}

/** Give a parameter a value; `undefined` takes it back to the declared default. */
export function setParameter(doc: Doc, id: string, name: string, value: JsonValue | undefined): Op[] {
  const node = own(doc.nodes, id);
  if (!node) return [];
  const path = ['nodes', id, 'params', name];
  if (value === undefined) return Object.hasOwn(node.params, name) ? [remove(path)] : [];
  return same(own(node.params, name), value) ? [] : [set(path, value)];
}

export function setPolicy(doc: Doc, id: string, field: 'retries' | 'timeout_s', value: number | null): Op[] {
  const node = own(doc.nodes, id);
  if (!node || node[field] === value || (field === 'retries' && value === null)) return [];
  return [set(['nodes', id, field], value)];
}

/** Let nodes take part in runs, leave them out, or let their input pass through. */
export function setMode(doc: Doc, ids: readonly string[], mode: DocNode['mode']): Op[] {
  return ids.flatMap((id) => {
    const node = own(doc.nodes, id);
    return node && node.mode !== mode ? [set(['nodes', id, 'mode'], mode)] : [];
  });
}

/** Another id for a node: its wires follow, those too that no person could draw. */
export function changeId(doc: Doc, id: string, to: string): Op[] {
  const node = own(doc.nodes, id);
  if (!node || Object.hasOwn(doc.nodes, to)) return [];
  const moved = (text: string) => (end(text).node === id ? written(to, end(text).port) : text);
  const wires = edgesAt(doc, new Set([id]));
  const { [id]: _, ...nodes } = doc.nodes;
  const taken = new Set(wires.map(([key]) => key));
  const edges = Object.fromEntries(Object.entries(doc.edges).filter(([key]) => !taken.has(key)));
  const drawn = wires.map(([was, e]) => {
    const edge = { source: moved(e.source), target: moved(e.target), order: e.order };
    const key = freeKey(edges, edge, was.slice(edgeKey(e.source, e.target).length));
    edges[key] = edge;
    return set(['edges', key], edge);
  });
  const after: Doc = { ...doc, nodes: { ...nodes, [to]: node }, edges };
  return [
    ...wires.map(([key]) => remove(['edges', key])),
    remove(['nodes', id]),
    set(['nodes', to], node),
    ...drawn.map((op) => asIn(after, op)),
  ];
}

/** The wire's key with the `#2` that it had, or else the first that no equal wire has. */
function freeKey(edges: Doc['edges'], { source, target }: DocEdge, suffix: string): string {
  const plain = edgeKey(source, target);
  let key = plain + suffix;
  for (let times = 2; Object.hasOwn(edges, key); times += 1) key = `${plain}#${times}`;
  return key;
}

export function setDescription(doc: Doc, text: string): Op[] {
  return doc.description === text ? [] : [set(['description'], text)];
}

/** A parameter of the pipeline: add or change it. Nodes take it with `${name}`. */
export function setPipelineParameter(doc: Doc, name: string, value: JsonValue, help: string): Op[] {
  const old = own(doc.parameters, name);
  if (!old) return [set(['parameters', name], { value, help })];
  return [
    ...(same(old.value, value) ? [] : [set(['parameters', name, 'value'], value)]),
    ...(old.help === help ? [] : [set(['parameters', name, 'help'], help)]),
  ];
}

export function removePipelineParameter(doc: Doc, name: string): Op[] {
  return Object.hasOwn(doc.parameters, name) ? [remove(['parameters', name])] : [];
}

/** Another name for a pipeline's parameter; every `${name}` in the nodes follows. */
export function renamePipelineParameter(doc: Doc, name: string, to: string): Op[] {
  const old = own(doc.parameters, name);
  if (!old || name === to || Object.hasOwn(doc.parameters, to)) return [];
  const uses = Object.entries(doc.nodes).flatMap(([id, node]) =>
    Object.entries(node.params).flatMap(([field, value]) => {
      const next = renamed(value, name, to);
      return same(next, value) ? [] : [set(['nodes', id, 'params', field], next)];
    }),
  );
  return [remove(['parameters', name]), set(['parameters', to], old), ...uses];
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Whole pixels: fractions would make every drag a noisy diff. */
function rounded(position: DocPosition): DocPosition {
  return { x: Math.round(position.x), y: Math.round(position.y) };
}
