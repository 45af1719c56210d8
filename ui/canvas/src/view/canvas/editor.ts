/** What a person can do on the canvas, whichever way they ask: by key, menu, button or mouse. */

import type { ReactFlowInstance } from '@xyflow/react';

import { arranged, type Size } from '../../document/arrange';
import { addNode, connect, insertOnEdge, moveNodes, reconnect, removeItems, setTitle } from '../../document/edits';
import { edgesAt, type End } from '../../document/ends';
import { apply, orderedNodes } from '../../document/ops';
import { own } from '../../document/own';
import { roomInWire } from '../../document/room';
import type { Doc, DocPosition, NodeTypeInfo, Op } from '../../protocol';
import { directed, isLoose, kindsAt, landing, opposite, portsOn } from '../../rules/fits';
import { nameOf, typeOf } from '../../rules/ports';
import { fitting, insertion, whyNot, type Side, type Types } from '../../rules/wiring';
import type { App } from '../../state/app';
import { NOTHING } from '../../state/state';
import { run, save } from '../../state/commands';
import { focusCanvas, focusNode, rootOf } from './focus';
import type { Card, Wire } from './items';
import { smooth } from './motion';
import { cardSize, HEAD, portOffset, WIDTH } from './size';
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

  /** A new node in the middle of the view, beside what stands there already. */
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

  /** `at`, or a little aside as long as a node stands there: nodes that lie upon each other look like one. */
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
    const room = roomInWire(doc, edge, cardSize(type), this.sizes());
    if (!ports || !room) return null;
    return this.added(`Insert ${type.type}`, type, room.at, (id, doc) => [
      ...moveNodes(doc, room.moved),
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

  // --- nodes ------------------------------------------------------------------------------------

  /** Nodes were dragged to new places, and perhaps one of them onto a wire. */
  moved(positions: ReadonlyMap<string, DocPosition>, into: string | null): void {
    const [node] = positions.keys();
    if (into !== null && node !== undefined && this.insertNode(node, into, positions)) return;
    const label = positions.size === 1 ? 'Move node' : `Move ${positions.size} nodes`;
    this.app.edit(label, moveNodes(this.app.state.doc, positions));
  }

  private insertNode(node: string, edge: string, dropped: ReadonlyMap<string, DocPosition>): boolean {
    const { doc, types } = this.app.state;
    const type = typeOf(doc, types, node);
    const ports = type && insertion(doc, types, edge, type);
    const sizes = this.sizes();
    const room = roomInWire(doc, edge, sizes.get(node) ?? cardSize(type), sizes);
    if (!ports || !room) return false;
    // It stays where it was let go, unless it has to be squeezed in.
    const places = room.moved.size > 0 ? new Map([...room.moved, [node, room.at] as const]) : dropped;
    this.app.edit(`Insert ${nameOf(doc, node)}`, [
      ...moveNodes(doc, places),
      ...insertOnEdge(doc, edge, node, ports.input, ports.output),
    ]);
    return true;
  }

  /** Move the chosen nodes a little. Gives the group of edits that it belongs to. */
  nudge(dx: number, dy: number): string {
    const { doc, selection } = this.app.state;
    const positions = new Map<string, DocPosition>();
    for (const id of selection.nodes) {
      const position = own(doc.nodes, id)?.position;
      if (position) positions.set(id, { x: position.x + dx, y: position.y + dy });
    }
    const label = positions.size === 1 ? 'Move node' : `Move ${positions.size} nodes`;
    const group = `nudge ${[...positions.keys()].join(' ')}`;
    this.app.edit(label, moveNodes(doc, positions), group);
    return group;
  }

  rename(id: string, title: string): void {
    this.app.edit('Rename', setTitle(this.app.state.doc, id, title.trim()));
  }

  /** Delete the chosen nodes and cut the chosen wires. */
  remove(): void {
    const { doc, selection } = this.app.state;
    const { nodes, edges } = selection;
    if (nodes.length === 0) {
      this.cut(edges);
      return;
    }
    const [first = ''] = nodes;
    const what = nodes.length === 1 ? nameOf(doc, first) : `${nodes.length} nodes`;
    this.app.edit(`Delete ${what}`, removeItems(doc, nodes, edges));
    announce(`Deleted ${what}.`);
    // The focused card is gone; without a focus the next Ctrl+Z would reach nobody.
    focusCanvas(this.frame);
  }

  /** All nodes in columns, or the chosen ones when there are several. */
  arrange(): void {
    const { doc, selection } = this.app.state;
    const chosen = selection.nodes.length > 1 ? new Set(selection.nodes) : undefined;
    this.app.edit('Arrange', moveNodes(doc, arranged(doc, this.sizes(), chosen)));
    if (!chosen) {
      soon(() => {
        this.fit();
      });
    }
  }

  // --- selecting and looking --------------------------------------------------------------------

  selectAll(): void {
    const { doc } = this.app.state;
    this.app.select({ nodes: orderedNodes(doc).map(([id]) => id), edges: Object.keys(doc.edges) });
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
    void this.flow.fitView({ padding: 0.08, maxZoom: 1, ...smooth() });
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

  sizes(): Map<string, Size> {
    return new Map(
      this.flow
        .getNodes()
        .flatMap(({ id, measured }): [string, Size][] =>
          measured?.width && measured.height ? [[id, { width: measured.width, height: measured.height }]] : [],
        ),
    );
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

/** The editor of the canvas on this page; null while there is none. */
export function theEditor(): Editor | null {
  return stage.getState().editor;
}
