/** The ports that a node shows: those that its type declares, and those that only its wires know of. */

import type { Doc, NodeTypeInfo, PortInfo } from '../protocol';
import { end } from '../document/ends';
import { own } from '../document/own';
import type { WiredPorts } from '../document/wires';
import type { Side, Types } from './wiring';

export interface ShownPort extends PortInfo {
  readonly wired: boolean;
  /** False for a port that the node type does not declare: it is there only because a wire ends in it. */
  readonly known: boolean;
}

export interface ShownPorts {
  readonly inputs: readonly ShownPort[];
  readonly outputs: readonly ShownPort[];
}

export function typeOf(doc: Doc, types: Types, node: string): NodeTypeInfo | undefined {
  const found = own(doc.nodes, node);
  return found && own(types, found.type);
}

export function shownPorts(type: NodeTypeInfo | undefined, wired: WiredPorts): ShownPorts {
  return { inputs: shown(type?.inputs ?? [], wired.inputs), outputs: shown(type?.outputs ?? [], wired.outputs) };
}

function shown(declared: readonly PortInfo[], wired: readonly string[]): ShownPort[] {
  const names = new Set(declared.map(({ name }) => name));
  return [
    ...declared.map((port) => ({ ...port, wired: wired.includes(port.name), known: true })),
    ...wired
      .filter((name) => !names.has(name))
      .map((name) => ({ name, kinds: [], required: false, help: '', wired: true, known: false })),
  ];
}

/** The kind of dataset that leaves an output (`node.port`); "" when its node type is not known. */
export function kindFrom(doc: Doc, types: Types, source: string): string {
  const { node, port } = end(source);
  return typeOf(doc, types, node)?.outputs.find(({ name }) => name === port)?.kinds[0] ?? '';
}

/** What a person calls a node: its title, else its type. */
export function nameOf(doc: Doc, node: string): string {
  const found = own(doc.nodes, node);
  return found ? found.title || found.type : node;
}

/** A port's name for a screen reader: `output out of NumpyToParquet, VolumeParquet`. */
export function spoken(side: Side, port: ShownPort, node: string): string {
  const kinds = port.kinds.length > 0 ? port.kinds.join(' or ') : 'unknown kind';
  const state = port.wired ? ', connected' : side === 'input' && port.required ? ', required, not connected' : '';
  return `${side} ${port.name} of ${node}, ${kinds}${state}`;
}
