/** A state as sign and word, in its colour on its tint: as the chips of the pages (`chip` in ui/shell/blocks.py). */

import { createElement, type ReactNode } from 'react';

import type { RunInfo } from '../../protocol';
import { STATE_WORDS, type LightState } from '../../rules/lights';
import { STATE_ICONS } from './state_icons';

interface Props {
  state: LightState | RunInfo['state'] | 'cancelling';
  sign: ReactNode;
  children: ReactNode;
}

export function StateMark({ state, sign, children }: Props) {
  return (
    <span className="state-mark" data-state={state}>
      {sign}
      {children}
    </span>
  );
}

export function NodeState({ state }: { state: LightState }) {
  return (
    <StateMark state={state} sign={createElement(STATE_ICONS[state], { size: 13, 'aria-hidden': true })}>
      {STATE_WORDS[state]}
    </StateMark>
  );
}
