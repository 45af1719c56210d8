/** What a person can do on the canvas, whichever way they ask: by key, menu, button or mouse. */

import type { ReactFlowInstance } from '@xyflow/react';
import { useStore } from 'zustand';
import { createStore } from 'zustand/vanilla';

import {
  addAnnotation,
  around,
  framed,
  moveAnnotations,
  NOTE_SIZE,
  placeAnnotation,
  setColour,
  type Box,
  type Colour,
} from '../../document/annotations';
import { arranged, framesAround } from '../../document/arrange';
import type { Size } from '../../document/sizes';
import {
  addNode,
  connect,
  insertOnEdge,
  moveNodes,
  reconnect,
  removeItems,
  setMode,
  setTitle,
} from '../../document/edits';
import { edgesAt, type End } from '../../document/ends';
import { apply, orderedNodes } from '../../document/ops';
import { own } from '../../document/own';
import { spaceInWire } from '../../document/space';
import type { Doc, DocAnnotation, DocPosition, NodeTypeInfo, Op } from '../../protocol';
import { directed, isLoose, kindsAt, landing, opposite, portsOn } from '../../rules/fits';
import { whyNoBypass, type Mode } from '../../rules/modes';
import { nameOf, typeOf } from '../../rules/ports';
import { fitting, insertion, whyNot, type Side, type Types } from '../../rules/wiring';
import type { App } from '../../state/app';
import { NOTHING, type Selection } from '../../state/state';
import { run, save } from '../../state/commands';
import { focusCanvas, focusNode, rootOf } from '../parts/focus';
import { annotationOf, itemOf, parted, type Card, type Wire } from './items';
import { smooth } from './motion';
import { cardSize, cardSizes, HEAD, MARGIN, portOffset, WIDTH } from './size';
import { announce, stage, type AddMenu, type Point } from './stage';

export type Flow = ReactFlowInstance<Card, Wire>;

const CASCADE = 32;

export class Editor {
  private pointer: Point | null = null;

  constructor(
    readonly app: App,
    readonly flow: Flow,
    readonly frame: HTMLElement,
  ) {}

  // --- adding -----------------------------------------------------------------------------------

  /** A new node with the middle of its head at a place on the screen. */
  addAt(type: NodeTypeInfo, screen: Point): string {
    const { x, y } = this.flow.screenToFlowPosition(screen);
    return this.added(`Add ${type.type}`, type, { x: x - WIDTH / 2, y: y - HEAD / 2 });
  }

  /** A new node in the middle of the view, beside what is there already. */
  addAtCentre(type: NodeTypeInfo): string {
    const { x, y } = this.flow.screenToFlowPosition(this.centre());
    const { width, height } = cardSize(type);
    return this.added(`Add ${type.type}`, type, this.beside({ x: x - width / 2, y: y - height / 2 }));
  }

  /** What was picked in the menu for adding nodes. */
  addFrom(menu: AddMenu, type: NodeTypeInfo): string | null {
    if (menu.edge !== null) return this.addIntoWire(menu.edge, type);
    if (menu.wire) return this.addAtWire(menu.wire.from, menu.wire.side, type, menu.at);
    const at = this.beside({ x: menu.at.x - WIDTH / 2, y: menu.at.y - HEAD / 2 });
    return this.added(`Add ${type.type}`, type, at);
  }

  /** `at`, or a little aside as long as a node is there: nodes on top of each other look like one. */
  private beside(at: DocPosition): DocPosition {
    const taken = Object.values(this.app.state.doc.nodes).map(({ position }) => position);
    const near = (p: DocPosition) => Math.abs(p.x - at.x) < CASCADE / 2 && Math.abs(p.y - at.y) < CASCADE / 2;
    return taken.some(near) ? this.beside({ x: at.x + CASCADE, y: at.y + CASCADE }) : at;
  }

  /** The node types that the menu offers: those that fit where it was opened. */
  offered(menu: AddMenu, types: Types): NodeTypeInfo[] {
    const { doc } = this.app.state;
    const { edge, wire } = menu;
    if (edge !== null) return Object.values(types).filter((type) => insertion(doc, types, edge, type));
    if (!wire) return Object.values(types);
    const kinds = kindsAt(doc, types, wire.from, wire.side);
    return fitting(types, kinds, opposite(wire.side)).map(({ type }) => type);
  }

  private addAtWire(from: End, side: Side, type: NodeTypeInfo, at: DocPosition): string | null {
    const { doc, types } = this.app.state;
    const across = opposite(side);
    const fit = fitting({ [type.type]: type }, kindsAt(doc, types, from, side), across)[0];
    if (!fit) return null;
    const offset = portOffset(across, portsOn(type, across).indexOf(fit.port));
    return this.added(`Add ${type.type}`, type, { x: at.x - offset.x, y: at.y - offset.y }, (id, doc) => {
      const { source, target } = directed(from, side, { node: id, port: fit.port.name });
      return connect(doc, source, target);
    });
  }

  addIntoWire(edge: string, type: NodeTypeInfo): string | null {
    const { doc, types } = this.app.state;
    const ports = insertion(doc, types, edge, type);
    const space = spaceInWire(doc, edge, cardSize(type), this.sizes());
    if (!ports || !space) return null;
    return this.added(`Insert ${type.type}`, type, space.at, (id, doc) => [
      ...moveNodes(doc, space.moved),
      ...insertOnEdge(doc, edge, id, ports.input, ports.output),
    ]);
  }

  private added(
    label: string,
    type: NodeTypeInfo,
    at: DocPosition,
    further: (id: string, doc: Doc) => Op[] = () => [],
  ): string {
    const { doc } = this.app.state;
    const { id, ops } = addNode(doc, type, at, this.app.mark);
    this.app.edit(label, [...ops, ...further(id, apply(doc, ops))]);
    this.app.select({ nodes: [id], edges: [] });
    announce(`Added ${type.type}.`);
    return id;
  }

  // --- wires ------------------------------------------------------------------------------------

  /** Draw a wire between two ports; gives why not, or "". */
  connect(from: End, side: Side, to: End): string {
    const { doc, types } = this.app.state;
    const { source, target } = directed(from, side, to);
    const why = whyNot(doc, types, source, target);
    if (why === '') this.app.edit('Connect', connect(doc, source, target));
    announce(why === '' ? `Connected ${source} to ${target}.` : why);
    return why;
  }

  /** Draw a wire to whichever port of a node fits and is free, or take the wire `edge` there. */
  connectToNode(from: End, side: Side, node: string, edge: string | null = null): string {
    const { doc, types } = this.app.state;
    const found = landing(without(doc, edge), types, from, side, node);
    if (!('port' in found)) return found.why;
    const to = { node, port: found.port };
    return edge === null ? this.connect(from, side, to) : this.reconnect(edge, from, side, to);
  }

  /** Take a wire by one end to another port; `fixed` is the end that stays. */
  reconnect(edge: string, fixed: End, side: Side, to: End): string {
    const { doc, types } = this.app.state;
    const { source, target } = directed(fixed, side, to);
    const why = whyNot(doc, types, source, target);
    if (why === '') this.app.edit('Move wire', reconnect(doc, edge, source, target));
    return why;
  }

  cut(edges: readonly string[]): void {
    if (edges.length === 0) return;
    this.app.edit(
      edges.length === 1 ? 'Cut wire' : `Cut ${edges.length} wires`,
      removeItems(this.app.state.doc, [], edges),
    );
    announce(edges.length === 1 ? 'Wire cut.' : `${edges.length} wires cut.`);
    focusCanvas(this.frame);
  }

  /** Cut all wires at nodes. */
  disconnect(nodes: readonly string[]): void {
    this.cut(edgesAt(this.app.state.doc, new Set(nodes)).map(([key]) => key));
  }

  /** The wire at one of the places on the screen into which the node could be put. */
  wireFor(type: NodeTypeInfo, places: readonly Point[]): string | null {
    const { doc, types } = this.app.state;
    for (const { x, y } of places) {
      for (const element of rootOf(this.frame).elementsFromPoint(x, y)) {
        const edge = element.closest('.react-flow__edge')?.getAttribute('data-id');
        if (edge && insertion(doc, types, edge, type)) return edge;
      }
    }
    return null;
  }

  /** The type of a node that may be dropped into a wire, undefined if it may not. */
  insertable(node: string): NodeTypeInfo | undefined {
    const { doc, types } = this.app.state;
    return isLoose(doc, node) ? typeOf(doc, types, node) : undefined;
  }

  // --- frames and notes -------------------------------------------------------------------------

  /** A new frame around the chosen nodes, or where the pointer is; its title is asked for at once. */
  addFrame(screen: Point = this.aim()): void {
    const { doc, selection } = this.app.state;
    const chosen = { nodes: selection.nodes, annotations: selection.annotations ?? [] };
    this.drawn('frame', around(doc, chosen, this.sizes()) ?? this.boxAt(screen, { width: 420, height: 260 }));
  }

  addNote(screen: Point = this.aim()): void {
    this.drawn('note', this.boxAt(screen, NOTE_SIZE));
  }

  private boxAt(screen: Point, { width, height }: Size): Box {
    const { x, y } = this.flow.screenToFlowPosition(screen);
    return { x: x - width / 2, y: y - 20, width, height };
  }

  private drawn(kind: DocAnnotation['kind'], box: Box): void {
    const { id, ops } = addAnnotation(this.app.state.doc, kind, box, this.app.mark);
    this.app.edit(`Add ${kind}`, ops);
    this.app.select({ nodes: [], edges: [], annotations: [id] });
    stage.setState({ renaming: itemOf(id), menu: null, tip: null });
    announce(`Added a ${kind}.`);
  }

  colour(ids: readonly string[], colour: Colour): void {
    this.app.edit('Change colour', setColour(this.app.state.doc, ids, colour));
  }

  resize(id: string, size: Size): void {
    this.app.edit('Resize', placeAnnotation(this.app.state.doc, id, size));
  }

  /** The frame as large as what it holds. */
  fitFrame(id: string): void {
    const { doc } = this.app.state;
    const box = around(doc, framed(doc, id, this.sizes()), this.sizes());
    if (box) this.app.edit('Fit frame', placeAnnotation(doc, id, box));
  }

  selectFramed(id: string): void {
    const { nodes, annotations } = framed(this.app.state.doc, id, this.sizes());
    this.app.select({ nodes, edges: [], annotations: [id, ...annotations] });
  }

  /** What goes along when `items` are dragged and some are frames, by where it is now. */
  followers(items: readonly string[]): Map<string, DocPosition> {
    const { doc } = this.app.state;
    const sizes = this.sizes();
    const found = new Map<string, DocPosition>();
    for (const frame of parted(items).annotations) {
      const { nodes, annotations } = framed(doc, frame, sizes);
      for (const item of [...nodes, ...annotations.map(itemOf)]) {
        const at = this.placeOf(item);
        if (at && !items.includes(item)) found.set(item, at);
      }
    }
    return found;
  }

  placeOf(item: string): DocPosition | undefined {
    const { doc } = this.app.state;
    const annotation = annotationOf(item);
    return annotation === undefined ? own(doc.nodes, item)?.position : own(doc.annotations, annotation)?.position;
  }

  /** Where the chosen nodes, frames and notes are, and what the frames hold: by item. */
  private chosen({ nodes, annotations = [] }: Selection): Map<string, DocPosition> {
    const items = [...nodes, ...annotations.map(itemOf)];
    const places = items.flatMap((item) => {
      const at = this.placeOf(item);
      return at ? [[item, at] as const] : [];
    });
    return new Map([...places, ...this.followers(items)]);
  }

  private moving(positions: ReadonlyMap<string, DocPosition>): Op[] {
    const { doc } = this.app.state;
    const annotations = [...positions].flatMap(([item, at]) => {
      const annotation = annotationOf(item);
      return annotation === undefined ? [] : [[annotation, at] as const];
    });
    return [...moveNodes(doc, positions), ...moveAnnotations(doc, new Map(annotations))];
  }

  private nameOfMove(positions: ReadonlyMap<string, DocPosition>, items: readonly string[]): string {
    const [first = ''] = items;
    const annotation = annotationOf(first);
    if (items.length === 1 && annotation !== undefined) {
      return `Move ${own(this.app.state.doc.annotations, annotation)?.kind ?? 'note'}`;
    }
    return positions.size === 1 ? 'Move node' : `Move ${positions.size} nodes`;
  }

  // --- taking part ------------------------------------------------------------------------------

  /** Give the chosen nodes a mode, or take it from them when all have it. */
  toggleMode(mode: Exclude<Mode, 'run'>): void {
    const { doc, types, selection } = this.app.state;
    const all = selection.nodes.every((id) => own(doc.nodes, id)?.mode === mode);
    if (selection.nodes.length === 0) return;
    const why =
      all || mode !== 'bypass' ? '' : (selection.nodes.map((id) => whyNoBypass(doc, types, id)).find(Boolean) ?? '');
    if (why !== '') {
      this.app.notify('info', 'This cannot be bypassed.', `${why} Disable it instead.`);
      return;
    }
    const word = all ? 'Enable' : mode === 'disabled' ? 'Disable' : 'Bypass';
    const [first = ''] = selection.nodes;
    const what = selection.nodes.length === 1 ? nameOf(doc, first) : `${selection.nodes.length} nodes`;
    this.app.edit(`${word} ${what}`, setMode(doc, selection.nodes, all ? 'run' : mode));
    announce(`${word}d ${what}.`.replace('Bypassd', 'Bypassed'));
  }

  // --- nodes ------------------------------------------------------------------------------------

  /** Nodes were dragged to new places, and perhaps one of them onto a wire. */
  moved(positions: ReadonlyMap<string, DocPosition>, into: string | null): void {
    const [node] = positions.keys();
    if (into !== null && node !== undefined && this.insertNode(node, into, positions)) return;
    this.app.edit(this.nameOfMove(positions, [...positions.keys()].slice(0, 1)), this.moving(positions));
  }

  private insertNode(node: string, edge: string, dropped: ReadonlyMap<string, DocPosition>): boolean {
    const { doc, types } = this.app.state;
    const type = typeOf(doc, types, node);
    const ports = type && insertion(doc, types, edge, type);
    const sizes = this.sizes();
    const space = spaceInWire(doc, edge, sizes.get(node) ?? cardSize(type), sizes);
    if (!ports || !space) return false;
    // It stays where it was let go, unless it has to be squeezed in.
    const places = space.moved.size > 0 ? new Map([...space.moved, [node, space.at] as const]) : dropped;
    this.app.edit(`Insert ${nameOf(doc, node)}`, [
      ...moveNodes(doc, places),
      ...insertOnEdge(doc, edge, node, ports.input, ports.output),
    ]);
    return true;
  }

  /** Move the chosen nodes a little. Gives the group of edits that it belongs to. */
  nudge(dx: number, dy: number): string {
    const chosen = this.chosen(this.app.state.selection);
    const positions = new Map([...chosen].map(([item, { x, y }]) => [item, { x: x + dx, y: y + dy }]));
    const group = `nudge ${[...positions.keys()].join(' ')}`;
    this.app.edit(this.nameOfMove(positions, [...positions.keys()].slice(0, 1)), this.moving(positions), group);
    return group;
  }

  rename(id: string, title: string): void {
    this.app.edit('Rename', setTitle(this.app.state.doc, id, title.trim()));
  }

  /** Delete the chosen nodes and cut the chosen wires. */
  remove(): void {
    const { doc, selection } = this.app.state;
    const { nodes, edges, annotations = [] } = selection;
    if (nodes.length + annotations.length === 0) {
      this.cut(edges);
      return;
    }
    const [first = ''] = nodes;
    const [drawn = ''] = annotations;
    const what =
      nodes.length === 1
        ? nameOf(doc, first)
        : nodes.length > 1
          ? `${nodes.length} nodes`
          : annotations.length === 1
            ? `the ${own(doc.annotations, drawn)?.kind ?? 'note'}`
            : `${annotations.length} frames and notes`;
    this.app.edit(`Delete ${what}`, removeItems(doc, nodes, edges, annotations));
    announce(`Deleted ${what}.`);
    // The focused card is gone; without a focus the next Ctrl+Z would reach nobody.
    focusCanvas(this.frame);
  }

  /** All nodes in columns, or the chosen ones when there are several. */
  arrange(): void {
    const { doc, selection } = this.app.state;
    const chosen = selection.nodes.length > 1 ? new Set(selection.nodes) : undefined;
    const sizes = this.sizes();
    const places = arranged(doc, sizes, chosen, chosen ? undefined : this.frame.getBoundingClientRect());
    this.app.edit('Arrange', [...moveNodes(doc, places), ...framesAround(doc, places, sizes)]);
    if (!chosen) {
      soon(() => {
        this.fit();
      });
    }
  }

  // --- selecting and looking --------------------------------------------------------------------

  selectAll(): void {
    const { doc } = this.app.state;
    const nodes = orderedNodes(doc).map(([id]) => id);
    this.app.select({ nodes, edges: Object.keys(doc.edges), annotations: Object.keys(doc.annotations) });
  }

  /** Select the node after (or before) the chosen one, bring it into view and focus it. */
  step(by: 1 | -1): void {
    const { doc, selection } = this.app.state;
    const ids = orderedNodes(doc).map(([id]) => id);
    const at = ids.indexOf(selection.nodes[0] ?? '');
    const id = at < 0 ? ids.at(by === 1 ? 0 : -1) : ids[(at + by + ids.length) % ids.length];
    if (id === undefined) return;
    this.app.goTo(id);
    focusNode(this.frame, id);
  }

  selectNothing(): void {
    this.app.select(NOTHING);
  }

  fit(): void {
    void this.flow.fitView({ padding: MARGIN, maxZoom: 1, ...smooth() });
  }

  zoom(way: 'in' | 'out'): void {
    void (way === 'in' ? this.flow.zoomIn(smooth()) : this.flow.zoomOut(smooth()));
  }

  /** Open the menu for adding a node: at `screen`, else at the pointer, else in the middle. */
  openAddMenu(screen: Point = this.aim(), more: Partial<Pick<AddMenu, 'wire' | 'edge'>> = {}): void {
    const at = this.flow.screenToFlowPosition(screen);
    stage.setState({ menu: { kind: 'add', screen, at, wire: null, edge: null, ...more }, tip: null });
  }

  // --- the pipeline -----------------------------------------------------------------------------

  save(): void {
    save(this.app);
  }

  run(start: string | null = null, end: string | null = null): void {
    run(this.app, { start, end, fresh: false });
  }

  // --- where ------------------------------------------------------------------------------------

  /** The pointer is over the canvas, or (null) has left it. */
  pointAt(pointer: Point | null): void {
    this.pointer = pointer;
  }

  /** Where something new goes: at the pointer, else in the middle. */
  aim(): Point {
    return this.pointer ?? this.centre();
  }

  centre(): Point {
    const { left, top, width, height } = this.frame.getBoundingClientRect();
    return { x: left + width / 2, y: top + height / 2 };
  }

  /** How large the cards are: as measured, and of one that was not drawn yet as it will be. */
  sizes(): Map<string, Size> {
    const out = cardSizes(this.app.state);
    for (const { id, measured } of this.flow.getNodes()) {
      if (measured?.width && measured.height) out.set(id, { width: measured.width, height: measured.height });
    }
    return out;
  }
}

/** After React has drawn what was just changed. */
function soon(action: () => void): void {
  requestAnimationFrame(() => {
    requestAnimationFrame(action);
  });
}

function without(doc: Doc, edge: string | null): Doc {
  return edge === null ? doc : apply(doc, removeItems(doc, [], [edge]));
}

const current = createStore<{ readonly editor: Editor | null }>(() => ({ editor: null }));

/** The editor of the canvas on this page; null while there is none. */
export function theEditor(): Editor | null {
  return current.getState().editor;
}

/** The same for a component, which is drawn again when there is another. */
export function useEditor(): Editor | null {
  return useStore(current, (s) => s.editor);
}

export function setEditor(editor: Editor): void {
  current.setState({ editor });
}
