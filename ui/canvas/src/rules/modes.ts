/** Nodes that take no part in runs: disabled or bypassed ones, and those that need one of them. */

import { end } from '../document/ends';
import { own } from '../document/own';
import type { Doc, DocNode, Problem } from '../protocol';
import { nameOf } from './ports';
import { pinnedTo } from './problems';
import { accepts, port, type Types } from './wiring';

export type Mode = DocNode['mode'];

/** What the engine reports of a node that is left out. */
export const LEFT_OUT = 'VF114';

/** Why a node takes no part in runs, in a word and a line; null when it does. */
export function outOf(doc: Doc, problems: readonly Problem[], id: string): { word: string; detail: string } | null {
  const mode = own(doc.nodes, id)?.mode ?? 'run';
  if (mode === 'disabled') return { word: 'Disabled', detail: 'left out, with all that needs it' };
  if (mode === 'bypass') return { word: 'Bypassed', detail: 'its input passes through' };
  const found = pinnedTo(problems, id).find(({ code }) => code === LEFT_OUT);
  return found ? { word: 'Left out', detail: found.message.replace(/^.*: it /, '') } : null;
}

/** Nodes that no run covers. */
export function leftOut(doc: Doc, problems: readonly Problem[]): Set<string> {
  return new Set(Object.keys(doc.nodes).filter((id) => outOf(doc, problems, id) !== null));
}

/** Why a node cannot be bypassed, or "": whoever takes an output of it needs something that is wired to one of its inputs. */
export function whyNoBypass(doc: Doc, types: Types, id: string): string {
  const wires = Object.values(doc.edges).map(({ source, target }) => ({ from: end(source), to: end(target) }));
  const given = wires
    .filter(({ to }) => to.node === id)
    .flatMap(({ from }) => port(doc, types, from.node, 'output', from.port) ?? []);
  const lost = wires.find(({ from, to }) => {
    const taken = port(doc, types, to.node, 'input', to.port);
    return from.node === id && !given.some((output) => taken !== undefined && accepts(taken, output));
  });
  return lost ? `${nameOf(doc, id)} has no input that ${nameOf(doc, lost.to.node)} could take instead.` : '';
}
