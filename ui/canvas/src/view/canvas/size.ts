/** How large a card is, known before it is drawn: for placing new nodes and the first view. canvas.css says the same. */

import type { FitViewOptions } from '@xyflow/react';

import type { Size } from '../../document/sizes';
import { readPorts, wiredPorts } from '../../document/wires';
import type { Doc } from '../../protocol';
import { shownPorts, typeOf, type ShownPorts } from '../../rules/ports';
import type { Side, Types } from '../../rules/wiring';

export const WIDTH = 224;
export const HEAD = 44;
export const ROW = 22;
export const FOOT = 44;

/** Around a document that is seen whole; below it hang the pictures of cards and lie the buttons for the zoom. */
export const MARGIN: NonNullable<FitViewOptions['padding']> = { x: 0.08, top: 0.08, bottom: '96px' };

type Ports = { readonly [K in keyof ShownPorts]: readonly unknown[] };

export function cardSize(ports: Ports | undefined): Size {
  const rows = ports ? Math.max(1, ports.inputs.length, ports.outputs.length) : 1;
  return { width: WIDTH, height: HEAD + ROW * rows + FOOT };
}

/** The size of each card, by node. */
export function cardSizes({ doc, types }: { readonly doc: Doc; readonly types: Types }): Map<string, Size> {
  return new Map(
    Object.keys(doc.nodes).map((id) => [
      id,
      cardSize(shownPorts(typeOf(doc, types, id), readPorts(wiredPorts(doc.edges, id)))),
    ]),
  );
}

/** Where a port's dot is, from its card's top left corner. */
export function portOffset(side: Side, index: number): { x: number; y: number } {
  return { x: side === 'input' ? 0 : WIDTH, y: HEAD + ROW * (index + 0.5) };
}
