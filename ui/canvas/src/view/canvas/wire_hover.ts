/** Which wire shows its buttons: the one the pointer rests on, and a moment longer, so that it can reach them. */

import { stage } from './stage';

const SHOW_MS = 120;
const HIDE_MS = 220;

let timer: ReturnType<typeof setTimeout> | undefined;

export function hoverWire(id: string): void {
  if (stage.getState().connecting) return;
  clearTimeout(timer);
  timer = setTimeout(() => {
    if (!stage.getState().connecting) stage.setState({ wire: id });
  }, SHOW_MS);
}

/** The pointer is on the buttons themselves. */
export function holdWire(id: string): void {
  clearTimeout(timer);
  if (stage.getState().wire !== id) stage.setState({ wire: id });
}

export function leaveWire(id: string): void {
  clearTimeout(timer);
  if (stage.getState().wire !== id) return;
  timer = setTimeout(() => {
    if (stage.getState().wire === id) stage.setState({ wire: null });
  }, HIDE_MS);
}
