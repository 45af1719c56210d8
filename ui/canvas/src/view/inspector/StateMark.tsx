/** A node's state as sign and word, in the state's colour on its tint: as the chips of the run pages. */

import { createElement } from 'react';

import { STATE_WORDS, type LightState } from '../../rules/lights';
import { STATE_ICONS } from '../state_icons';

export function StateMark({ state }: { state: LightState }) {
  return (
    <span className="state-mark" data-state={state}>
      {createElement(STATE_ICONS[state], { size: 13, 'aria-hidden': true })}
      {STATE_WORDS[state]}
    </span>
  );
}
