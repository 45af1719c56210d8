/** Drawing a wire, by mouse or by keyboard: what it starts, where it may end, how it is given up. */

import { written, type End } from '../../document/ends';
import { own } from '../../document/own';
import { kindsAt, opposite, reasons } from '../../rules/fits';
import { nameOf } from '../../rules/ports';
import type { Side } from '../../rules/wiring';
import type { App } from '../../state/app';
import { theEditor } from './editor';
import { announce, stage, type Connecting } from './stage';

export function begin(app: App, from: End, side: Side, by: Connecting['by']): void {
  const { doc, types } = app.state;
  const kind = kindsAt(doc, types, from, side)[0] ?? '';
  stage.setState({
    connecting: { from, side, kind, by, reasons: reasons(doc, types, from, side) },
    tip: null,
    wire: null,
    over: null,
  });
}

export function stop(): void {
  if (stage.getState().connecting) stage.setState({ connecting: null, over: null });
}

/** The document changed while a wire is drawn: what fits is found anew. */
export function refresh(app: App): void {
  const { connecting } = stage.getState();
  if (!connecting) return;
  if (own(app.state.doc.nodes, connecting.from.node)) begin(app, connecting.from, connecting.side, connecting.by);
  else stop();
}

/** A port was pressed by key or clicked: start a wire there, or finish it. Gives why it can't end there, or "". */
export function press(app: App, at: End, side: Side): string {
  const { connecting } = stage.getState();
  if (!connecting || connecting.side === side) {
    const again = connecting?.from.node === at.node && connecting.from.port === at.port;
    if (again) {
      stop();
      announce('No wire.');
      return '';
    }
    begin(app, at, side, 'keyboard');
    announce(
      `Wire from ${at.port} of ${nameOf(app.state.doc, at.node)}. ` +
        `Go to an ${opposite(side)} that fits and press Enter, or Escape for no wire.`,
    );
    return '';
  }
  const why = theEditor()?.connect(connecting.from, connecting.side, at) ?? '';
  if (why === '') stop();
  return why;
}

/** Whether a wire that is being drawn may end at a port; null while none is drawn, or it starts there. */
export function verdict(connecting: Connecting | null, at: End, side: Side): 'start' | 'yes' | 'no' | null {
  if (!connecting) return null;
  if (connecting.from.node === at.node && connecting.from.port === at.port && connecting.side === side) return 'start';
  if (connecting.side === side) return 'no';
  return connecting.reasons.get(written(at.node, at.port)) === '' ? 'yes' : 'no';
}

/** Whether any port of a node takes the wire that is being drawn; null while none is drawn. */
export function takes(connecting: Connecting | null, node: string): boolean | null {
  if (!connecting) return null;
  if (connecting.from.node === node) return true;
  for (const [port, why] of connecting.reasons) if (why === '' && port.startsWith(`${node}.`)) return true;
  return false;
}
