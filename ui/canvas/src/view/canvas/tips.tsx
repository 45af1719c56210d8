/** Tooltips: one layer for the whole editor, shown after a moment's rest or when the keyboard arrives. */

import { useMemo, type FocusEvent, type PointerEvent, type ReactNode } from 'react';

import { stage, type Tip } from './stage';

const REST_MS = 400;

let timer: ReturnType<typeof setTimeout> | undefined;

export interface TipHandlers {
  onPointerEnter: (event: PointerEvent) => void;
  onPointerLeave: () => void;
  onPointerDown: () => void;
  onFocus: (event: FocusEvent) => void;
  onBlur: () => void;
}

/** Handlers that show `body` beside an element; give it a component that reads what is live by itself. */
export function useTip(body: () => ReactNode, side: Tip['side'] = 'top'): TipHandlers {
  return useMemo(
    () => ({
      onPointerEnter: (event) => {
        if (event.pointerType === 'touch' || event.buttons !== 0) return;
        const { currentTarget } = event;
        clearTimeout(timer);
        timer = setTimeout(() => {
          show(currentTarget, body, side);
        }, REST_MS);
      },
      onPointerLeave: hideTip,
      onPointerDown: hideTip,
      onFocus: ({ currentTarget }) => {
        if (currentTarget.matches(':focus-visible')) show(currentTarget, body, side);
      },
      onBlur: hideTip,
    }),
    [body, side],
  );
}

export function hideTip(): void {
  clearTimeout(timer);
  if (stage.getState().tip) stage.setState({ tip: null });
}

function show(element: Element, body: () => ReactNode, side: Tip['side']): void {
  const { connecting, menu, carried } = stage.getState();
  if (!element.isConnected || menu || carried || connecting?.by === 'pointer') return;
  stage.setState({ tip: { anchor: element.getBoundingClientRect(), side, body: body() } });
}
